//! CRUSH against Ceph's `crushtool`, against recorded mappings, and against laws that hold for any map.

mod changes;
mod crushtool;
mod golden;
mod properties;
mod support;
