//! A server and a client that measure TCP between two network namespaces: see bench/net/run.
//!
//! ```text
//! netbench serve ADDRESS PORT FOLDER   serves one measurement after another
//! netbench ask ADDRESS PORT MODE       prints one figure
//! ```

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Size of one read or write of a stream, in bytes.
const BLOCK: usize = 256 << 10;
/// Size of a message, in bytes.
const MESSAGE: usize = 100;
/// Number of messages in one write, if they are batched.
const BATCH: usize = 64;
/// Size of the file, in bytes.
const FILE: u64 = 1000 << 20;
/// Duration of the measurement of a stream, or of messages.
const LONG: Duration = Duration::from_secs(1);

/// The measurement to make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The rate of a stream, in Gbit/s.
    Stream,
    /// The copy of 1000 MB from a file to a file, in seconds.
    File,
    /// The round-trip time of a message, in microseconds.
    RoundTrip,
    /// Messages with one call for each, in millions per second.
    Single,
    /// Messages with one call for 64 of them, in millions per second.
    Batched,
}

const MODES: [(&str, Mode); 5] = [
    ("stream", Mode::Stream),
    ("file", Mode::File),
    ("round-trip", Mode::RoundTrip),
    ("single", Mode::Single),
    ("batched", Mode::Batched),
];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["serve", address, port, folder] => serve(address, port, Path::new(folder)),
        ["ask", address, port, mode, folder] => ask(address, port, mode, Path::new(folder)),
        _ => Err(io::Error::other(
            "usage: netbench serve ADDRESS PORT FOLDER | ask ADDRESS PORT MODE FOLDER",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("netbench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn place(address: &str, port: &str) -> io::Result<SocketAddr> {
    let ip = address.parse().map_err(io::Error::other)?;
    let port = port.parse().map_err(io::Error::other)?;
    Ok(SocketAddr::new(ip, port))
}

fn serve(address: &str, port: &str, folder: &Path) -> io::Result<()> {
    let listener = TcpListener::bind(place(address, port)?)?;
    for client in listener.incoming() {
        // The failure of one client does not end the server.
        if let Err(error) = client.and_then(|client| answer(client, folder)) {
            eprintln!("netbench: {error}");
        }
    }
    Ok(())
}

fn answer(mut client: TcpStream, folder: &Path) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut mode = [0];
    client.read_exact(&mut mode)?;
    match MODES.get(usize::from(mode[0])).map(|(_, mode)| *mode) {
        Some(Mode::RoundTrip) => {
            let mut message = [0; MESSAGE];
            while client.read_exact(&mut message).is_ok() {
                client.write_all(&message)?;
            }
            Ok(())
        }
        Some(Mode::File) => {
            let mut file = File::create(folder.join("netbench.in"))?;
            let copied = drain(&mut client, |bytes| file.write_all(bytes))?;
            client.write_all(&copied.to_be_bytes())
        }
        Some(_) => {
            let copied = drain(&mut client, |_| Ok(()))?;
            client.write_all(&copied.to_be_bytes())
        }
        None => Err(io::Error::other("an unknown measurement")),
    }
}

/// Reads until the end of the stream, and counts the bytes.
fn drain(client: &mut TcpStream, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut buffer = vec![0; BLOCK];
    let mut all = 0;
    loop {
        match client.read(&mut buffer)? {
            0 => return Ok(all),
            some => {
                take(&buffer[..some])?;
                all += some as u64;
            }
        }
    }
}

fn connect(place: SocketAddr) -> io::Result<TcpStream> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match TcpStream::connect(place) {
            Ok(stream) => return Ok(stream),
            // The server may not have started yet.
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn ask(address: &str, port: &str, word: &str, folder: &Path) -> io::Result<()> {
    let number = MODES.iter().position(|(name, _)| *name == word);
    let number = number.ok_or_else(|| io::Error::other("an unknown measurement"))?;
    let mut server = connect(place(address, port)?)?;
    server.set_nodelay(true)?;
    server.write_all(&[u8::try_from(number).map_err(io::Error::other)?])?;
    let figure = match MODES[number].1 {
        Mode::Stream => throughput(&mut server, BLOCK)? * 8.0 / 1e9,
        Mode::Single => throughput(&mut server, MESSAGE)? / MESSAGE as f64 / 1e6,
        Mode::Batched => throughput(&mut server, MESSAGE * BATCH)? / MESSAGE as f64 / 1e6,
        Mode::RoundTrip => round_trip(&mut server)?,
        Mode::File => copy(&mut server, folder)?,
    };
    println!("{figure:.4}");
    Ok(())
}

/// Returns the bytes per second until the last byte has arrived, for writes of this size.
fn throughput(server: &mut TcpStream, size: usize) -> io::Result<f64> {
    let block = vec![0; size];
    let start = Instant::now();
    while start.elapsed() < LONG {
        // Reading the clock costs as much as a small write.
        for _ in 0..64 {
            server.write_all(&block)?;
        }
    }
    let received = finish(server)?;
    Ok(received as f64 / start.elapsed().as_secs_f64())
}

fn finish(server: &mut TcpStream) -> io::Result<u64> {
    server.shutdown(std::net::Shutdown::Write)?;
    let mut count = [0; 8];
    server.read_exact(&mut count)?;
    Ok(u64::from_be_bytes(count))
}

fn round_trip(server: &mut TcpStream) -> io::Result<f64> {
    let mut message = [0; MESSAGE];
    let (start, mut trips) = (Instant::now(), 0_u32);
    while start.elapsed() < LONG {
        for _ in 0..32 {
            server.write_all(&message)?;
            server.read_exact(&mut message)?;
            trips += 1;
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(trips))
}

fn copy(server: &mut TcpStream, folder: &Path) -> io::Result<f64> {
    let path = folder.join("netbench.out");
    if std::fs::metadata(&path).map_or(true, |meta| meta.len() != FILE) {
        let mut file = File::create(&path)?;
        let block = vec![7; 1 << 20];
        for _ in 0..FILE >> 20 {
            file.write_all(&block)?;
        }
    }
    let mut file = File::open(&path)?;
    let mut buffer = vec![0; BLOCK];
    let start = Instant::now();
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            some => server.write_all(&buffer[..some])?,
        }
    }
    match finish(server)? {
        FILE => Ok(start.elapsed().as_secs_f64()),
        other => Err(io::Error::other(format!("{other} bytes arrived"))),
    }
}
