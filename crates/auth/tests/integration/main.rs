//! Keyrings and keys beside Ceph's own tools.

mod ceph_authtool;
