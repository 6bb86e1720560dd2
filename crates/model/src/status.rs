//! Derived status: the conditions that follow from the facts, complete at an epoch. What clients answered is joined
//! to it later (`tidegate-status`), outside the dataflow.

use crate::fact::{AddressFact, ParentFact};
use crate::finding::{Finding, Reason};
use crate::kind::GroupKind;
use crate::name::{Name, NamespacedName};
use crate::plain::plain_name;
use serde::{Deserialize, Serialize};

/// The derived status of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DerivedStatus {
    /// The generation that was looked at; 0 for kinds without status.
    pub generation: i64,
    /// Conditions by the shape of the kind.
    pub body: StatusBody,
    /// Everything there is to say about the object, including what no condition has room for.
    pub findings: Vec<Finding>,
}

impl DerivedStatus {
    /// The Gateway of a ListenerSet.
    #[must_use]
    pub fn gateway(&self) -> Option<&NamespacedName> {
        match &self.body {
            StatusBody::ListenerSet { gateway, .. } => Some(gateway),
            StatusBody::Class(_)
            | StatusBody::Gateway { .. }
            | StatusBody::Route(_)
            | StatusBody::Policy(_)
            | StatusBody::None => None,
        }
    }
}

/// Conditions in the shape of the kind's status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StatusBody {
    /// GatewayClass.
    Class(Vec<Condition>),
    /// Gateway.
    Gateway {
        /// Conditions of the Gateway.
        conditions: Vec<Condition>,
        /// The addresses that it has.
        addresses: Vec<AddressFact>,
        /// Status of its own listeners, in the order of the spec.
        listeners: Vec<ListenerStatus>,
        /// How many ListenerSets are attached; none of a Gateway that admits none and is named by none.
        attached_sets: Option<u32>,
    },
    /// ListenerSet.
    ListenerSet {
        /// Its Gateway.
        gateway: NamespacedName,
        /// Conditions of the ListenerSet.
        conditions: Vec<Condition>,
        /// Status of its listeners, in the order of the spec.
        listeners: Vec<ListenerStatus>,
    },
    /// A route: one entry a parent reference that is ours, in the order of the spec.
    Route(Vec<ParentStatus>),
    /// A policy: one entry a Gateway through which it has an effect, by name.
    Policy(Vec<AncestorStatus>),
    /// A kind without status: only findings.
    None,
}

/// Status of a listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// Its name.
    pub name: Name,
    /// Kinds of route it takes.
    pub supported_kinds: Vec<GroupKind>,
    /// How many routes are attached.
    pub attached_routes: u32,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// Status of a route towards one parent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ParentStatus {
    /// The parent as the user referred to it.
    pub parent: ParentFact,
    /// The Gateway at which the route is served: the parent, or the one that the parent adds listeners to.
    pub gateway: NamespacedName,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// Status of a policy towards one Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AncestorStatus {
    /// The Gateway.
    pub gateway: NamespacedName,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// A condition, without its times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The type.
    pub kind: ConditionType,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// The reason.
    pub reason: Reason,
    /// For people.
    pub message: Name,
}

impl Condition {
    /// A condition that holds.
    #[must_use]
    pub fn yes(kind: ConditionType, reason: Reason, message: impl Into<Name>) -> Self {
        Condition::of(kind, ConditionStatus::True, reason, message.into())
    }

    /// A condition that does not hold.
    #[must_use]
    pub fn no(kind: ConditionType, reason: Reason, message: impl Into<Name>) -> Self {
        Condition::of(kind, ConditionStatus::False, reason, message.into())
    }

    /// A condition of which nobody knows whether it holds.
    #[must_use]
    pub fn unknown(kind: ConditionType, reason: Reason, message: impl Into<Name>) -> Self {
        Condition::of(kind, ConditionStatus::Unknown, reason, message.into())
    }

    /// The message may hold what users wrote as it is: here it comes to be [`plain`](crate::plain).
    fn of(kind: ConditionType, status: ConditionStatus, reason: Reason, message: Name) -> Self {
        Condition { kind, status, reason, message: plain_name(message) }
    }
}

/// The types of condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionType {
    /// The object is taken into account.
    Accepted,
    /// The configuration is sealed for the proxies (and none rejected it).
    Programmed,
    /// Its references resolve.
    ResolvedRefs,
    /// A listener conflicts with another one.
    Conflicted,
    /// Some of a route's rules or backends cannot be served and answer 500; absent otherwise.
    PartiallyInvalid,
    /// Clients of a Gateway pass without a valid certificate although they are asked for one; absent otherwise.
    InsecureFrontendValidationMode,
    /// Ours, on routes: False while a proxy rejects what was made of the route, absent otherwise.
    RouteProgrammed,
    /// Entries of a route keep their previous target for a while; only there while they do.
    Held,
}

impl ConditionType {
    /// The type as a condition carries it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionType::Accepted => "Accepted",
            ConditionType::Programmed => "Programmed",
            ConditionType::ResolvedRefs => "ResolvedRefs",
            ConditionType::Conflicted => "Conflicted",
            ConditionType::PartiallyInvalid => "PartiallyInvalid",
            ConditionType::InsecureFrontendValidationMode => "InsecureFrontendValidationMode",
            ConditionType::RouteProgrammed => "tidegate.dev/Programmed",
            ConditionType::Held => "tidegate.dev/Held",
        }
    }
}

/// True, False or Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// Holds.
    True,
    /// Does not hold.
    False,
    /// Not known.
    Unknown,
}

impl ConditionStatus {
    /// The status as a condition carries it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}
