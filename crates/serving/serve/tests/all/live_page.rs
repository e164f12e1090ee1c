//! The live page in a browser: on phones, tablets and desktops, light and dark, without an error and with nothing cut off.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use dumbwaiter_linux::service::{HttpServer, Response};
use dumbwaiter_serve::bench::ClosedLoop;
use dumbwaiter_testkit::{Browser, StopOnDrop};

use crate::running::Running;

/// Widths of phones, a tablet and a desktop, in pixels of CSS.
const WIDTHS: &str = "[320, 360, 412, 768, 1280]";
const EXPORTS: [&str; 4] = [
    "db:weight=400,size=1M,limit_iops=100000,description=orders",
    "a-name-of-one-word-that-is-longer-than-the-screen-of-a-phone-is-wide:weight=10000,offset=1M,size=1M",
    "b:weight=100,offset=2M,size=1M",
    "idle:offset=3M,size=1M",
];

/// The page at each width, in frames of one page that measures them.
fn measuring_page() -> String {
    format!(
        r#"<!doctype html><meta charset="utf-8"><body><script>
const frames = {WIDTHS}.map((width) => {{
  const frame = document.createElement("iframe");
  frame.style = `width:${{width}}px;height:2000px;border:0`;
  frame.src = "page";
  document.body.append(frame);
  return frame;
}});
const measure = (frame) => {{
  const page = frame.contentDocument, root = page.documentElement, wide = [];
  for (const e of page.body.querySelectorAll("*"))
    if (e.getBoundingClientRect().right > root.clientWidth + 0.5 || e.getBoundingClientRect().left < -0.5)
      wide.push(e.tagName + "." + e.className);
  const cards = [...page.querySelectorAll(".tenant")].map((e) => e.getBoundingClientRect());
  const over = cards.filter((a, i) => cards.slice(i + 1).some((b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
  return `${{root.clientWidth}}: wide ${{root.scrollWidth - root.clientWidth}} [${{wide}}], overlaps ${{over}}, ` +
    `state ${{page.getElementById("state").textContent.split(",")[0]}}`;
}};
const look = () => {{
  const drawn = (f) => f.contentDocument && f.contentDocument.querySelectorAll(".tenant").length === {count};
  if (!frames.every(drawn)) return setTimeout(look, 100);
  const paper = getComputedStyle(frames[0].contentDocument.body).backgroundColor;
  document.body.dataset.paper = paper;
  document.body.dataset.measured = frames.map(measure).join("; ");
}};
look();
</script></body>"#,
        count = EXPORTS.len()
    )
}

/// The server's answer to a GET.
fn get(server: SocketAddr, path: &str) -> Response {
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    if !head.starts_with("HTTP/1.1 200") {
        // A browser asks for an icon too.
        return Response::text("404 Not Found", "");
    }
    let kind = if path == "/" { "text/html; charset=utf-8" } else { "application/json" };
    Response::ok(kind, body)
}

/// A value that the measuring page noted.
fn noted<'a>(dom: &'a str, name: &str) -> &'a str {
    let rest = dom.split_once(&format!("data-{name}=\"")).unwrap_or_else(|| panic!("the page was not drawn: {dom}")).1;
    rest.split('"').next().unwrap()
}

#[test]
fn nothing_is_cut_off_at_any_width_in_either_colour_scheme() {
    let Some(browser) = Browser::find() else {
        println!("skipped: no Chromium");
        eprintln!("skipped: no Chromium");
        return;
    };
    let running = Running::with("file", &EXPORTS, |settings| settings.http = Some("127.0.0.1:0".parse().unwrap()));
    let address = running.server().http_address().unwrap();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut papers = Vec::new();
    std::thread::scope(|scope| {
        let _clients = StopOnDrop(&stop);
        for export in [0, 1] {
            let name = EXPORTS[export].split(':').next().unwrap();
            let load = ClosedLoop::reads(running.socket(), name, 4, 1);
            let (stop, done) = (&stop, &done);
            scope.spawn(move || load.run(stop, done).unwrap());
        }
        // Shares are counted over whole seconds.
        std::thread::sleep(Duration::from_secs(2));
        // One origin for all: only so may a page look into its frames.
        let both = HttpServer::start("127.0.0.1:0".parse().unwrap(), &[], move |path| match path {
            "/" => Response::ok("text/html; charset=utf-8", measuring_page()),
            "/page" => get(address, "/"),
            other => get(address, other),
        });
        let both = both.unwrap();
        for (colour, setting) in [("light", 1), ("dark", 0)] {
            let scheme = format!("--blink-settings=preferredColorScheme={setting}");
            let opened = browser.open(&format!("http://{}/", both.address()), &[&scheme]);
            assert!(opened.console.is_empty(), "{}", opened.console.join("\n"));
            let measured = noted(&opened.dom, "measured");
            for frame in measured.split("; ") {
                assert!(frame.contains(": wide 0 [], overlaps 0, state live"), "{colour}, {measured}");
            }
            papers.push(noted(&opened.dom, "paper").to_owned());
        }
    });
    assert_ne!(papers[0], papers[1], "the same paper in the light and in the dark");
    assert!(running.end());
}
