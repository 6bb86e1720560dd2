//! Fixtures, golden files, echo backends and scripted servers for tests.
