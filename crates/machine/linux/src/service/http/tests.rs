use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use connection::TIME_MAX;
use request::HEAD_BYTES_MAX;

fn started() -> HttpServer {
    HttpServer::start("127.0.0.1:0".parse().unwrap(), &[], |path| match path {
        "/large" => Response::ok("text/plain", "x".repeat(16 << 20)),
        _ => Response::ok("text/plain", format!("path {path}")),
    })
    .unwrap()
}

/// The whole answer to some bytes.
fn ask(address: SocketAddr, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = client.write_all(bytes);
    let mut answer = String::new();
    // A refused client may be reset before it has read all.
    let _ = client.read_to_string(&mut answer);
    answer
}

/// Each probe is answered, and soon.
fn probe(address: SocketAddr, count: u32) {
    for number in 0..count {
        let begin = Instant::now();
        let answer = ask(address, b"GET /healthz HTTP/1.1\r\nHost: pod\r\n\r\n");
        assert!(answer.ends_with("path /healthz"), "probe {number}: {answer:?}");
        // Kubernetes waits for one second.
        assert!(begin.elapsed() < Duration::from_secs(1), "probe {number} took {:?}", begin.elapsed());
    }
}

#[test]
fn a_get_is_answered_by_its_path_and_all_else_is_refused() {
    let server = started();
    let answer = ask(server.address(), b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\npath /metrics"), "{answer}");
    let answer = ask(server.address(), b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.contains("Content-Length: 13\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    let answer = ask(server.address(), b"POST / HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    let answer = ask(server.address(), b"GET /stats.json HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    let answer = ask(server.address(), &[b'x'; HEAD_BYTES_MAX + 1]);
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[test]
fn slow_clients_hold_nobody_up() {
    let server = started();
    let connect = || TcpStream::connect(server.address()).unwrap();
    // Clients that send nothing, a byte, or a head that does not end: more than there are places.
    let mut slow: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    for (number, client) in slow.iter_mut().enumerate() {
        let _ = client.write_all(&b"GET / HTTP/1.1\r\nx: y\r\n"[..number % 22]);
    }
    probe(server.address(), 20);
    // Clients that take none of a large answer: more than are answered at a time.
    let greedy: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut client = connect();
            client.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
            client
        })
        .collect();
    probe(server.address(), 20);
    let begin = Instant::now();
    assert!(ask(server.address(), b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("path /metrics"));
    assert!(begin.elapsed() < TIME_MAX, "{:?}", begin.elapsed());
    drop((slow, greedy));
}

#[test]
fn a_client_that_sends_or_takes_byte_by_byte_is_left_at_the_deadline() {
    let server = started();
    let mut client = TcpStream::connect(server.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let begin = Instant::now();
    let over = loop {
        let _ = client.write_all(b"x");
        match client.read(&mut [0]) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => break begin.elapsed(),
        }
        assert!(begin.elapsed() < 3 * TIME_MAX, "it is still there");
    };
    assert!(over + Duration::from_millis(500) > TIME_MAX, "left after {over:?}");
}

#[test]
fn garbage_in_any_pieces_leaves_the_server_as_it_was() {
    let server = started();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    for _ in 0..300 {
        let mut client = TcpStream::connect(server.address()).unwrap();
        for _ in 0..random() % 4 {
            let piece: Vec<u8> =
                (0..random() % 600).map(|_| b"GET / HTTP/1.\r\n:\xff\0"[random() as usize % 18]).collect();
            let _ = client.write_all(&piece);
        }
    }
    probe(server.address(), 3);
    // It ends although clients are connected.
    let idle = TcpStream::connect(server.address()).unwrap();
    drop(server);
    drop(idle);
}
