//! Metrics and the live page over HTTP.

use std::net::SocketAddr;

use dumbwaiter_linux::service::openmetrics::CONTENT_TYPE;
use dumbwaiter_linux::service::{HttpServer, Response};

use crate::Error;
use crate::inspector::Inspector;
use crate::metrics::openmetrics;

const PAGE: &str = include_str!("page.html");

/// Starts the thread that answers.
pub(crate) fn start(address: SocketAddr, hosts: &[String], inspector: Inspector) -> Result<HttpServer, Error> {
    HttpServer::start(address, hosts, move |path| answer(path, &inspector))
        .map_err(|source| Error::Io { what: format!("--http {address}"), source })
}

fn answer(path: &str, inspector: &Inspector) -> Response {
    match (path, inspector.stats()) {
        ("/", _) => Response::ok("text/html; charset=utf-8", PAGE),
        ("/metrics", Ok(disks)) => Response::ok(CONTENT_TYPE, openmetrics(&disks, inspector.failed_negotiations())),
        ("/healthz", Ok(disks)) if disks.iter().any(|disk| disk.flush_failed) => {
            Response::text("503 Service Unavailable", "a flush failed: check the drive, then restart the server\n")
        }
        ("/healthz", Ok(_)) => Response::ok("text/plain", "ok\n"),
        ("/stats.json", Ok(disks)) => {
            Response::ok("application/json", serde_json::to_string(&disks).unwrap_or_default())
        }
        ("/metrics" | "/healthz" | "/stats.json", Err(error)) => {
            Response::text("503 Service Unavailable", format!("{error}\n"))
        }
        _ => Response::text("404 Not Found", "not found; expected /, /metrics, /healthz or /stats.json\n"),
    }
}
