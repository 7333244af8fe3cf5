//! Maps against Ceph's `osdmaptool`, against maps recorded from a running Ceph, and against laws that hold for any map.

mod corpus;
mod osdmaptool;
mod osdmaptool_upmap;
mod properties;
mod recorded;
mod support;
