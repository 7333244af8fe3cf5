mod bed;
mod cache;
mod crash;
mod damage;
mod decoding;
mod fill;
mod history;
mod overflow;
