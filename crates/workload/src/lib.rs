//! Seeded generators of objects and events for tests, benches and profiles.
