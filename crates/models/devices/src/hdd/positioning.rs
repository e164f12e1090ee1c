//! Service times of a disk without caches, for schedulers that may know them.

use dumbwaiter_block::{Nanos, Op, Request, ServiceOracle};

use super::geometry::Geometry;
use super::params::Params;
use super::seek::Seek;

/// The media times of a disk that is built with the same parameters and seed. Caches and read-ahead are left out.
#[derive(Debug)]
pub struct Positioning {
    geometry: Geometry,
    seek: Seek,
    t_cmd: u64,
    phase0: u64,
    sectors: u64,
}

impl Positioning {
    /// Of the disk that [`Hdd::new`](super::Hdd::new) builds.
    pub fn new(p: &Params, seed: u64) -> Positioning {
        let geometry = Geometry::new(p);
        Positioning {
            phase0: super::phase_at_start(seed, &geometry),
            seek: Seek::new(p),
            t_cmd: Nanos::from_us_f64(p.t_cmd_ms * 1e3).0,
            sectors: p.capacity_sectors,
            geometry,
        }
    }
}

impl ServiceOracle for Positioning {
    fn service(&self, now: Nanos, position: u64, request: &Request) -> Nanos {
        if !matches!(request.io.op, Op::Read | Op::Write) || request.end() > self.sectors {
            return Nanos(self.t_cmd);
        }
        let from = self.geometry.place(position.clamp(1, self.sectors) - 1);
        let to = self.geometry.place(request.sector);
        let seek = self.seek.time(from, to, request.io.op == Op::Write);
        let turn = self.geometry.revolution;
        let arrives = (now.0 + self.t_cmd + self.phase0 + seek) % turn;
        let wait = (to.angle + turn - arrives) % turn;
        let media = self.geometry.media(request.sector, u64::from(request.sectors));
        Nanos(self.t_cmd + seek + wait + media)
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Io, TenantId};

    use super::*;
    use crate::{Command, Device, Params as Any, load};

    /// Random reads one by one take as long as the oracle says.
    #[test]
    fn single_reads_take_what_the_oracle_says() {
        let model = load("hdd:hts541010a9e662?ncq_depth=1&lookahead=false").unwrap();
        let Any::Hdd(p) = model.params() else { unreachable!("a hard disk") };
        let (oracle, mut disk) = (Positioning::new(p, 7), super::super::Hdd::new(p, 7));
        let (mut now, mut position, mut state) = (Nanos::ZERO, 1, 1u64);
        for tag in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let sector = (state >> 20) % (p.capacity_sectors - 8) / 8 * 8;
            let request = Request::new(Io { sector, sectors: 8, ..Io::default() }, now);
            let expected = oracle.service(now, position, &request);
            let command = Command { tag, op: Op::Read, fua: false, sector, sectors: 8, queue: 0, tenant: TenantId(0) };
            disk.submit(now, &command);
            let mut done = Vec::new();
            while done.is_empty() {
                let at = disk.next_event().unwrap();
                disk.advance(at, &mut done);
            }
            let took = done[0].at.since(now);
            // The link comes on top.
            assert!(took.0.abs_diff(expected.0) < 60_000, "{tag}: {took} {expected}");
            (now, position) = (done[0].at, sector + 8);
        }
    }
}
