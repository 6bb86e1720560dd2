//! Derived status and observations, as the Kubernetes API would hold them.
