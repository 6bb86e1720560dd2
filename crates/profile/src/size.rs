//! How big the cluster of a profile is.

use serde::{Deserialize, Serialize};
use tidegate_engine::Config;
use tidegate_workload::Shape;

/// Namespaces that Services and routes are spread over, at most.
const MAX_NAMESPACES: usize = 100;

/// A cluster, its clients, and how often each operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Gateways.
    pub gateways: usize,
    /// Services, each with one EndpointSlice.
    pub services: usize,
    /// Endpoints of a Service.
    pub endpoints: usize,
    /// Zones that the endpoints are spread over.
    pub zones: usize,
    /// Routes.
    pub routes: usize,
    /// Clients, spread over the Gateways.
    pub clients: usize,
    /// Of a hundred Services, those with a traffic distribution.
    pub prefer: usize,
    /// Of everything that is random.
    pub seed: u64,
    /// Threads that derive.
    pub workers: usize,
    /// How often an operation is done.
    pub count: usize,
}

impl Default for Size {
    /// What the figures of the documentation are of.
    fn default() -> Self {
        Size {
            gateways: 10,
            services: 10_000,
            endpoints: 10,
            zones: 4,
            routes: 5_000,
            clients: 1_000,
            prefer: 25,
            seed: 1,
            workers: 1,
            count: 2_000,
        }
    }
}

impl Size {
    /// Small and short: it shows that everything works, and the figures mean nothing.
    #[must_use]
    pub fn quick() -> Self {
        Size { gateways: 2, services: 40, endpoints: 3, routes: 20, clients: 4, count: 10, ..Size::default() }
    }

    /// The cluster. Services and routes are spread over as many namespaces as divide both, at most a hundred, and so that
    /// every Gateway has routes.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let fits = |count: &usize| {
            self.services.is_multiple_of(*count)
                && self.routes.is_multiple_of(*count)
                && self.routes / count >= self.gateways
        };
        Shape {
            seed: self.seed,
            namespaces: (1..=MAX_NAMESPACES).rev().find(fits).unwrap_or(1),
            gateways: self.gateways,
            services: self.services,
            endpoints: self.endpoints,
            zones: self.zones,
            routes: self.routes,
            preferring: self.prefer,
            ..Shape::default()
        }
    }

    /// What follows the cluster.
    #[must_use]
    pub fn config(&self) -> Config {
        Config { workers: self.workers, ..Config::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workload::Fanout;

    #[test]
    fn every_size_is_a_cluster() {
        for (services, routes, namespaces) in [(10_000, 5_000, 100), (7, 3, 1), (40, 20, 10), (1, 1, 1), (12, 18, 6)] {
            let shape = Size { services, routes, ..Size::quick() }.shape();
            assert_eq!(shape.namespaces, namespaces, "{services} {routes}");
            assert_eq!(Fanout::new(shape).shape().services, services);
        }
    }
}
