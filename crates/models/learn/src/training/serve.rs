//! Recorded requests served by a device model: the same stream with the times of another device.

use crate::RequestRecord;
use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES, TenantId};
use dumbwaiter_devices::{Command, Device, Facts, Submitted, load};

use crate::training::Error;
use crate::training::data::{DataSet, Run, Segment};

/// Seed of the device model. Recordings have no seed, and the times of a stream should always be the same.
const SEED: u64 = 1;

/// The runs as a device model would have served them: one request at a time, in the order of issue, each as soon as it has
/// arrived and the one before it is complete. The device starts empty with each segment.
pub fn serve(data: &DataSet, device: &str) -> Result<(DataSet, Facts), Error> {
    let wrong = |problem: String| Error::Device { name: device.to_owned(), problem };
    let model = load(device).map_err(|error| wrong(error.to_string()))?;
    let facts = model.build(SEED).facts();
    let mut runs = Vec::new();
    for run in &data.runs {
        let mut segments = Vec::new();
        for segment in &run.segments {
            let served = serve_segment(segment, model.build(SEED).as_mut());
            segments.push(served.map_err(|problem| wrong(format!("{problem} in {}", run.name())))?);
        }
        runs.push(Run { segments, ..run.clone() });
    }
    Ok((DataSet { runs }, facts))
}

fn serve_segment(segment: &Segment, device: &mut dyn Device) -> Result<Segment, String> {
    let capacity = device.facts().capacity_sectors;
    let mut now = Nanos::ZERO;
    let mut served = Segment::new();
    let mut done = Vec::new();
    for record in segment.iter().filter(|record| matches!(record.op, Op::Read | Op::Write | Op::Flush)) {
        if record.op != Op::Flush && record.end() > capacity {
            return Err(format!("sector {} is beyond the device's {capacity} sectors", record.sector));
        }
        now = now.max(record.arrive);
        let sectors = u64::from(record.bytes).div_ceil(SECTOR_BYTES) as u32;
        let command = Command {
            tag: 0,
            op: record.op,
            fua: false,
            sector: record.sector,
            sectors,
            queue: 0,
            tenant: TenantId(0),
        };
        // Internal events of the device come first, such as write-back of its cache.
        device.advance(now, &mut done);
        done.clear();
        if device.submit(now, &command) == Submitted::Busy {
            return Err("the idle device refuses a request".to_owned());
        }
        let issue = now;
        while done.is_empty() {
            now = device.next_event().ok_or("the device never completes a request")?;
            device.advance(now, &mut done);
        }
        let complete = done[0].at;
        done.clear();
        now = now.max(complete);
        served.push(RequestRecord { issue, complete, depth: 0, ..*record });
    }
    Ok(served)
}
