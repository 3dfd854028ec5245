//! Sessions of clients and daemons with the manager.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;

/// `MMgrOpen`: a client or daemon introduces itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MgrOpen {
    /// The daemon's name without its type.
    pub daemon_name: String,
    /// Empty: the service is the kind of the participant.
    pub service_name: String,
    /// Present if the sender is a daemon that wants to be listed in the service map.
    pub service_daemon: Option<ServiceDaemon>,
    /// An encoded map of options, opaque here.
    pub config: Bytes,
    /// An encoded map of defaults, opaque here.
    pub config_defaults: Bytes,
}

/// A daemon of a service, for the service map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceDaemon {
    /// Fixed facts: host, version, addresses.
    pub metadata: BTreeMap<String, String>,
    /// State that the daemon reports later again.
    pub status: BTreeMap<String, String>,
}

impl crate::MessageBody for MgrOpen {
    const KIND: u16 = 0x700;

    fn encode(&self, _features: u64) -> engine::Message {
        let mut w = Writer::new();
        w.value(&self.daemon_name);
        w.value(&self.service_name);
        w.value(&self.service_daemon);
        w.value(&self.config);
        w.value(&self.config_defaults);
        engine::Message::new(Self::KIND, 3, 1, w.into_bytes())
    }

    fn decode(message: &engine::Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let mut open = MgrOpen { daemon_name: r.string("daemon name")?, ..MgrOpen::default() };
        if message.version >= 2 {
            open.service_name = r.string("service name")?;
            open.service_daemon = r.value()?;
        }
        if message.version >= 3 {
            open.config = r.value()?;
            open.config_defaults = r.value()?;
        }
        Ok(open)
    }
}

impl Encode for ServiceDaemon {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.metadata);
        w.value(&self.status);
    }
}

impl Decode for ServiceDaemon {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ServiceDaemon { metadata: r.value()?, status: r.value()? })
    }
}

message! {
    /// `MMgrClose`: the sender ends the session. The manager answers with the same message.
    MgrClose = 0x708, version 1, compat 1 {
        /// The daemon's name without its type.
        daemon_name: String;
        /// Empty: the service is the kind of the participant.
        service_name: String;
    }
}

/// `MMgrConfigure`: the interval of reports. Further metrics are never requested, so their two fields are
/// written empty and not read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MgrConfigure {
    /// Seconds between reports.
    pub stats_period_seconds: u32,
    /// Counters below this priority are omitted; 0 requests all.
    pub stats_threshold: u32,
}

impl crate::MessageBody for MgrConfigure {
    const KIND: u16 = 0x701;

    fn encode(&self, _features: u64) -> engine::Message {
        let mut w = Writer::new();
        w.u32(self.stats_period_seconds);
        w.u32(self.stats_threshold);
        w.count(0);
        w.bool(false);
        engine::Message::new(Self::KIND, 4, 1, w.into_bytes())
    }

    fn decode(message: &engine::Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let stats_period_seconds = r.u32("stats period")?;
        let has_threshold = message.version >= 2;
        let stats_threshold = if has_threshold { r.u32("stats threshold")? } else { 0 };
        Ok(MgrConfigure { stats_period_seconds, stats_threshold })
    }
}

/// `MMgrReport`: performance counters and status. Metrics after the configuration are not requested: they are
/// written empty, and the fields after them are not read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MgrReport {
    /// The daemon's name without its type.
    pub daemon_name: String,
    /// Counters that are reported for the first time.
    pub declared: Vec<PerfCounterType>,
    /// The values of all declared counters, in the order of their paths.
    pub packed: Bytes,
    /// Paths of counters that are not reported any more.
    pub undeclared: Vec<String>,
    /// Empty: the service is the kind of the participant.
    pub service_name: String,
    /// Present if the state that the service map shows has changed.
    pub daemon_status: Option<BTreeMap<String, String>>,
    /// Metrics that become health checks.
    pub health_metrics: Vec<DaemonHealthMetric>,
    /// An encoded map of options, opaque here.
    pub config: Bytes,
    /// Tasks in progress of the daemon; of senders without performance metrics.
    pub task_status: Option<BTreeMap<String, String>>,
}

impl crate::MessageBody for MgrReport {
    const KIND: u16 = 0x702;

    fn encode(&self, _features: u64) -> engine::Message {
        let mut w = Writer::new();
        w.value(&self.daemon_name);
        w.value(&self.declared);
        w.value(&self.packed);
        w.value(&self.undeclared);
        w.value(&self.service_name);
        w.value(&self.daemon_status);
        w.value(&self.health_metrics);
        w.value(&self.config);
        w.count(0);
        w.value(&self.task_status);
        w.bool(false);
        engine::Message::new(Self::KIND, 9, 1, w.into_bytes())
    }

    fn decode(message: &engine::Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let mut report = MgrReport { daemon_name: r.string("daemon name")?, ..Self::default() };
        report.declared = r.value()?;
        report.packed = r.value()?;
        if message.version >= 2 {
            report.undeclared = r.value()?;
        }
        if message.version >= 3 {
            report.service_name = r.string("service name")?;
            report.daemon_status = r.value()?;
        }
        if message.version >= 5 {
            report.health_metrics = r.value()?;
        }
        if message.version >= 6 {
            report.config = r.value()?;
        }
        if message.version >= 8 && r.u32("performance metrics")? == 0 {
            report.task_status = r.value()?;
        }
        Ok(report)
    }
}

structure! {
    /// `PerfCounterType`
    PerfCounterType, version 3, compat 1 {
        /// Name of the counter, as `osd.op_w`.
        path: String;
        /// Description for users.
        description: String;
        /// Short name for tables.
        nick: String;
        /// `perfcounter_type_d`
        kind: u8;
        /// Counters of low priority may be omitted.
        priority: u8, since 2;
        /// `unit_t`
        unit: u8, since 3;
    }
}

structure! {
    /// `DaemonHealthMetric`
    DaemonHealthMetric, version 1, compat 1 {
        /// 0 slow operations, 1 pending creation of placement groups.
        kind: u8;
        /// The value, which the kind gives a meaning.
        value: u64;
    }
}
