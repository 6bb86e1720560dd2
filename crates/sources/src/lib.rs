//! The outside world as events: manifest directories and recorded logs.
