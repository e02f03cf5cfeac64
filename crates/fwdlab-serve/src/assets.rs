//! The page: the compiled files of `web/`, embedded, so that building this program does not need
//! Node.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::error::Refusal;

const APP: &str = include_str!("../assets/index.html");

/// Returns the page; its address determines what it shows.
pub async fn app() -> Response {
    typed("text/html; charset=utf-8", APP)
}

/// Returns one of its files.
pub async fn file(Path(name): Path<String>) -> Result<Response, Refusal> {
    match name.as_str() {
        "app.js" => Ok(typed(
            "text/javascript; charset=utf-8",
            include_str!("../assets/app.js"),
        )),
        "app.css" => Ok(typed(
            "text/css; charset=utf-8",
            include_str!("../assets/app.css"),
        )),
        "report.css" => Ok(typed("text/css; charset=utf-8", fwdlab_report::html::STYLE)),
        _ => Err(Refusal::missing("no such file")),
    }
}

/// Browsers request an icon.
pub async fn icon() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Handles all other paths.
pub async fn not_found() -> Refusal {
    Refusal::missing("there is nothing at this address")
}

fn typed(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}
