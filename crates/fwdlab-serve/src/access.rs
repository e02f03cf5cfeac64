//! Access control: which requests are allowed, and what a browser may do with an answer.
//!
//! On loopback everyone on this machine may read. Changing a run requires the token in a header,
//! which no foreign page can send; a foreign host name that resolves to this machine (DNS
//! rebinding) is refused. On other addresses reading requires the token, too: in the header, or
//! with a cookie that a browser gets for it and that only allows reading.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::Refusal;
use crate::server::Shared;
use crate::token::same;

/// Our page may only load our own files. The styles of its charts are attributes, which
/// `style-src-elem` does not cover.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const COOKIE_NAME: &str = "fwdlab_session";

/// Applies to every request and every answer.
pub async fn apply_headers(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if shared.local && !is_ours(request.headers()) {
        return Err(Refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers to localhost, 127.0.0.1 and [::1] only".into(),
        ));
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// Returns true if the host name in the request is a local name of this machine.
fn is_ours(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Guards requests that read.
pub async fn reads(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    if shared.local || has_token(headers, &shared) || has_session(headers, &shared) {
        return Ok(next.run(request).await);
    }
    Err(no_token())
}

/// Guards requests that change a run.
pub async fn changes(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    match has_token(request.headers(), &shared) {
        true => Ok(next.run(request).await),
        false => Err(no_token()),
    }
}

/// Sets a cookie for reading if the request has the token.
pub async fn session(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if !has_token(&headers, &shared) {
        return Err(no_token());
    }
    let secure = if shared.local { "" } else { "; Secure" };
    let session = &shared.session;
    let cookie = format!("{COOKIE_NAME}={session}; Path=/; HttpOnly; SameSite=Strict{secure}");
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

fn no_token() -> Refusal {
    Refusal(
        StatusCode::UNAUTHORIZED,
        "this takes the token that fwdlab serve printed: open its address with #token=..., or send the header \
         Authorization: Bearer TOKEN"
            .into(),
    )
}

fn has_token(headers: &HeaderMap, shared: &Shared) -> bool {
    let sent = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let sent = sent.and_then(|value| value.strip_prefix("Bearer "));
    sent.is_some_and(|sent| same(sent.trim(), &shared.token))
}

fn has_session(headers: &HeaderMap, shared: &Shared) -> bool {
    let all = headers.get_all(COOKIE).iter();
    let mut all = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|one| one.trim().split_once('='));
    all.any(|(name, value)| name == COOKIE_NAME && same(value, &shared.session))
}
