//! Kubernetes objects to facts and findings; pure.
