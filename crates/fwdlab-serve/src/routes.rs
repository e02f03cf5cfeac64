//! The handler of each path.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::server::Shared;
use crate::{access, api, assets, metrics, places};

/// Returns all routes. Those in `open` are the page itself, which contains no run.
pub fn all(shared: Arc<Shared>) -> Router {
    let open = Router::new()
        .route("/", get(assets::app))
        .route("/runs", get(assets::app))
        .route("/runs/{id}", get(assets::app))
        .route("/compare", get(assets::app))
        .route("/trend", get(assets::app))
        .route("/beds", get(assets::app))
        .route("/flame", get(assets::app))
        .route("/assets/{name}", get(assets::file))
        .route("/favicon.ico", get(assets::icon))
        .route("/api/session", post(access::session));
    let read = Router::new()
        .route("/api/runs", get(api::runs::list))
        .route("/api/runs/{id}", get(api::run::show))
        .route("/api/runs/{id}/report", get(api::run::fragment))
        .route("/api/runs/{id}/flame", get(api::flame::stacks))
        .route("/api/runs/{id}/load", get(api::load::chart))
        .route("/runs/{id}/report", get(api::run::report))
        .route("/runs/{id}/charts/{file}", get(api::run::chart))
        .route("/api/compare", get(api::compare::compare))
        .route("/api/trend", get(api::trend::trend))
        .route("/api/beds", get(api::beds::list))
        .route("/metrics", get(metrics::all))
        .layer(from_fn(places::answered))
        // not an answer that is completely in memory
        .route("/api/runs/{id}/events", get(api::events::follow))
        .layer(from_fn_with_state(shared.clone(), access::reads));
    let change = Router::new()
        .route("/api/runs/{id}/steer", post(api::steer::steer))
        .layer(from_fn_with_state(shared.clone(), access::changes));
    open.merge(read)
        .merge(change)
        .fallback(assets::not_found)
        .layer(from_fn_with_state(shared.clone(), access::apply_headers))
        .with_state(shared)
}
