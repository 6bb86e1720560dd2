//! A `tidegate` that serves, from outside: its log line by line, its pages, its end.

use serde_json::Value;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long anything may take on a busy machine before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running controller, killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    log: Receiver<Value>,
    /// Every log line that was looked at.
    seen: RefCell<Vec<String>>,
    admin: String,
}

#[allow(dead_code, reason = "each test program takes what it needs")]
impl Running {
    /// Starts `tidegate` with `args`, then `dir` and `more`.
    pub(crate) fn start(args: &[&str], dir: &Path, more: &[&str], environment: &[(&str, &Path)]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(args)
            // By a relative name, as people call it.
            .arg(dir.file_name().unwrap())
            .current_dir(dir.parent().unwrap())
            .args(["--admin", "127.0.0.1:0", "--log-format", "json"])
            .args(more)
            .env("TIDEGATE_LOG", "trace")
            .envs(environment.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, log) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let entry = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if send.send(entry).is_err() {
                    break;
                }
            }
        });
        let mut running = Running { child, log, seen: RefCell::default(), admin: String::new() };
        running.admin = running.line("serving")["admin"].as_str().unwrap().to_owned();
        running
    }

    /// The next log line with this message.
    pub(crate) fn line(&self, message: &str) -> Value {
        self.line_where(|entry| entry["message"] == message)
    }

    /// The next log line that fits.
    pub(crate) fn line_where(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Vec::new();
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(entry) => {
                    self.seen.borrow_mut().push(entry.to_string());
                    if fits(&entry) {
                        return entry;
                    }
                    seen.push(entry.to_string());
                }
                Err(error) => panic!("{error} on the awaited line; seen:\n{}", seen.join("\n")),
            }
        }
    }

    /// Status code and body of a page.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (code, body) = self.get(path);
        assert_eq!(code, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Stops it with SIGTERM; its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.terminate();
        self.child.wait().unwrap().code()
    }

    /// Stops it with SIGTERM; its exit code and its whole log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.terminate();
        while let Ok(entry) = self.log.recv_timeout(PATIENCE) {
            self.seen.borrow_mut().push(entry.to_string());
        }
        let code = self.child.wait().unwrap().code();
        (code, self.seen.take().join("\n"))
    }

    fn terminate(&self) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()), "it is gone already");
    }
}

impl Drop for Running {
    /// In good order if possible, for it may have children of its own.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            // Its log ends with it.
            while self.log.recv_timeout(PATIENCE).is_ok() {}
        }
        let _already_gone = self.child.kill();
        let _already_waited = self.child.wait();
    }
}
