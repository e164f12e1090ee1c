//! The head of an HTTP request: what is asked for, or the answer to what is none.

use std::net::IpAddr;

use super::response::Response;

/// A request head that is longer is refused.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;
/// Lines of a head at most.
const LINES_MAX: usize = 100;
/// Bytes of a path at most.
const PATH_BYTES_MAX: usize = 1 << 10;
/// The path of health probes.
pub(super) const HEALTH: &str = "/healthz";

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Without its query.
    pub path: String,
    /// `HEAD`: only the head of the answer.
    pub head_only: bool,
    /// It takes OpenMetrics; others get metrics in the older text format.
    pub takes_openmetrics: bool,
}

/// Where the head in these bytes ends, if all of it is there.
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a head. `hosts`: names by which the server may be called.
///
/// # Errors
/// The answer to a head that is refused.
pub(super) fn parse(head: &[u8], hosts: &[String]) -> Result<Request, Response> {
    let bad = || Response::text("400 Bad Request", "not an HTTP request\n");
    let text = std::str::from_utf8(head).map_err(|_| bad())?;
    let mut lines = text.trim_end_matches("\r\n").split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad());
    };
    if !version.starts_with("HTTP/1.") {
        return Err(bad());
    }
    if target.len() > PATH_BYTES_MAX {
        return Err(Response::text("414 URI Too Long", "the path is too long\n"));
    }
    let (mut host, mut takes_openmetrics) = (None, false);
    for (number, line) in lines.enumerate() {
        if number >= LINES_MAX {
            return Err(Response::text("431 Request Header Fields Too Large", "too many header lines\n"));
        }
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        takes_openmetrics |= name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text");
        if name.eq_ignore_ascii_case("host") && host.replace(value.trim()).is_some() {
            return Err(bad());
        }
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Response::text("405 Method Not Allowed", "expected GET or HEAD\n")),
    };
    let path = target.split('?').next().unwrap_or_default().to_owned();
    // Probes call a pod by any name, and learn nothing but that it lives.
    if path != HEALTH && host.is_some_and(|host| !is_own(host, hosts)) {
        let text =
            "this server is not known by the name in Host; call it by its address, or start it with --http-host NAME\n";
        return Err(Response::text("421 Misdirected Request", text));
    }
    Ok(Request { path, head_only, takes_openmetrics })
}

/// Is this `Host` an address, `localhost` or one of the names given? Any other may be that of a stranger's page, which had its own
/// name lead here to read the answers in a visitor's browser (DNS rebinding).
fn is_own(host: &str, hosts: &[String]) -> bool {
    let bare = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    let bare = bare.trim_end_matches('.');
    bare.parse::<IpAddr>().is_ok()
        || bare.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|own| own.eq_ignore_ascii_case(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> &'static str {
        match parse(head.as_bytes(), &["disks.example".to_owned()]) {
            Ok(_) => "200",
            Err(refused) => &refused.status[..3],
        }
    }

    #[test]
    fn only_plain_requests_to_a_known_name_pass() {
        for host in ["127.0.0.1", "127.0.0.1:9100", "[::1]:9100", "LocalHost:1", "disks.example.", "10.0.0.7"] {
            assert_eq!(status(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")), "200", "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80", "[::1", "disks.example.evil"]
        {
            assert_eq!(status(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")), "421", "{host}");
            assert_eq!(status(&format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n")), "200", "{host}");
        }
        assert_eq!(status("GET / HTTP/1.0\r\n\r\n"), "200");
        for bad in [
            "\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        ] {
            assert_eq!(status(bad), "400", "{bad:?}");
        }
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(2000))), "414");
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(200))), "431");
        let head = parse(b"HEAD /metrics?x=1 HTTP/1.1\r\n\r\n", &[]).unwrap();
        assert_eq!(head, Request { path: "/metrics".into(), head_only: true, takes_openmetrics: false });
        let accept = b"GET / HTTP/1.1\r\nACCEPT: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n";
        assert!(parse(accept, &[]).unwrap().takes_openmetrics);
    }

    #[test]
    fn any_bytes_are_a_request_or_refused() {
        // No chance in it: the same bytes each time.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let words: [&[u8]; 9] = [b"GET ", b"/", b" HTTP/1.1", b"\r\n", b"Host:", b"[", b"]", b":", b"\xff\0"];
        for _ in 0..50_000 {
            let mut head = Vec::new();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                head.extend_from_slice(words[(state >> 33) as usize % words.len()]);
            }
            let _ = (head_end(&head), parse(&head, &[]));
        }
    }
}
