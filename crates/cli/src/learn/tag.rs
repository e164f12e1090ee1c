//! `learn tag`.

use std::collections::BTreeMap;

use crate::terminal::tags_text;
use anyhow::Result;
use dumbwaiter_block::IoTag;
use dumbwaiter_pilot::layout_map;
use serde_json::json;

use crate::args::LearnTag;
use crate::{Ended, output};

pub(super) fn tag(args: &LearnTag) -> Result<Ended> {
    let map = layout_map(&args.device, args.mount.as_deref())?;
    let counts = map.blocks_by_tag();
    let named = (0..IoTag::COUNT as u8).filter_map(IoTag::from_code).zip(counts).filter(|(_, blocks)| *blocks > 0);
    let named: BTreeMap<&str, u64> = named.map(|(tag, blocks)| (tag.name(), blocks)).collect();
    let document = json!({ "schema": 1, "device": args.device, "block_bytes": map.block_bytes(), "blocks": named });
    output::print_or_json(args.json.as_deref(), &document, || tags_text(&args.device, map.block_bytes(), &named))?;
    Ok(Ended::Done)
}
