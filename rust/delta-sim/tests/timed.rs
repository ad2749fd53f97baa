//! The timed mode: the same committer, whose promises hold, in a time that follows from the scenario.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use delta_commit::rules::ProtocolRules;
use delta_sim::timed::{
    Disk, Latency, Load, ObjectStore, Pauses, ProcessorTimes, Report, Scenario, StoreModel, Synced, run,
    run_with,
};

fn seeds() -> u64 {
    match std::env::var("SPILLWAY_TESTS").as_deref() {
        Ok("quick") => 8,
        Ok("soak") => 1_000,
        _ => 24,
    }
}

fn endless(seconds: f64) -> Load {
    Load::Endless {
        warm_up_seconds: 5.0,
        seconds,
        each_per_second: None,
    }
}

/// A disk, in round numbers.
fn disk() -> Disk {
    Disk {
        find_tip_us: 50,
        read_version_us: 10,
        put_version: Synced {
            cpu_us: 60,
            disk_us: 400,
            waits: 2,
        },
        list_intents_us: 20,
        list_intent_us: 5,
        read_intent_us: 30,
        put_intent_us: 70,
        delete_intent_us: 20,
        sync_data: Synced {
            cpu_us: 40,
            disk_us: 500,
            waits: 2,
        },
        sync_log: Synced {
            cpu_us: 30,
            disk_us: 300,
            waits: 2,
        },
        sync_again: Synced {
            cpu_us: 5,
            disk_us: 10,
            waits: 1,
        },
        side_by_side: 4,
    }
}

/// A scenario of a few processes: one of every kind is among few seeds.
fn drawn(seed: u64) -> Scenario {
    let of = |choices: &[usize], place: u64| choices[usize::try_from(seed / place).unwrap() % choices.len()];
    let processes = of(&[1, 2, 5, 17], 1);
    Scenario {
        name: format!("seed {seed}"),
        seed,
        hosts: processes.min(of(&[1, 3], 4)),
        cores: 2,
        processes,
        writers: processes * of(&[1, 4, 30], 2),
        tables: of(&[1, 1, 3], 3),
        files: of(&[1, 2], 5),
        coalesce: seed % 6 == 5,
        company_ms: of(&[0, 0, 20], 7) as u64,
        skew_ms: 500,
        pauses: (seed % 3 == 1).then_some(Pauses {
            an_hour: 1_800.0,
            time: Latency::new(200.0, 2_000.0),
        }),
        load: match seed % 5 {
            0 => Load::Burst { appends: 1 },
            1 => Load::Burst { appends: 7 },
            2 => Load::Endless {
                warm_up_seconds: 1.0,
                seconds: 10.0,
                each_per_second: Some(0.5),
            },
            _ => endless(10.0),
        },
        work: ProcessorTimes {
            prepare_us: 200,
            write_us: 700,
            request_us: 100,
            parse_ns: 5_000,
            seal_ns: 3_000,
            version_us: 500,
            cold_us: 50,
        },
        store: if seed.is_multiple_of(2) {
            StoreModel::Disk(disk())
        } else {
            StoreModel::ObjectStore(ObjectStore::default())
        },
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_doubled() {
    let (mut appends, mut lost) = (0, 0);
    for seed in 0..seeds() {
        let report = run(&drawn(seed)).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        assert_eq!(report.failed, 0, "seed {seed}");
        appends += report.appends;
        // An attempt may begin before the time that counts, and its version come in it.
        lost += report.attempts.saturating_sub(report.versions);
    }
    // Without races nothing is proved.
    assert!(
        appends > 100 * seeds() && lost > seeds(),
        "{appends} appends, {lost} lost attempts"
    );
}

#[test]
fn a_committer_that_doubles_is_found() {
    let mutant = ProtocolRules {
        r4_no_doubles: false,
        ..ProtocolRules::default()
    };
    let broken = (0..40).find_map(|seed| run_with(&drawn(seed), mutant).err());
    assert!(broken.is_some_and(|promise| promise.contains("is added in version")));
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    for seed in 0..6 {
        let (one, other) = (run(&drawn(seed)), run(&drawn(seed)));
        assert_eq!(one, other, "seed {seed}");
        // A disk takes the same time for the same effect, whatever is drawn.
        if matches!(drawn(seed).store, StoreModel::Disk(_)) {
            continue;
        }
        let next = Scenario {
            seed: seed + 100,
            ..drawn(seed)
        };
        assert_ne!(
            one.map(|report| report.wait_seconds),
            run(&next).map(|report| report.wait_seconds)
        );
    }
}

/// A store whose answers always take the same time.
fn steady(conditional_put: f64) -> ObjectStore {
    ObjectStore {
        get: Latency::exactly(20.0),
        put: Latency::exactly(40.0),
        conditional_put: Latency::exactly(conditional_put),
        list: Latency::exactly(30.0),
        megabytes_per_second: 1e6,
        ..ObjectStore::default()
    }
}

fn on(store: StoreModel) -> Scenario {
    Scenario {
        load: endless(60.0),
        store,
        ..Scenario::default()
    }
}

/// Asserts that two numbers differ by less than a hundredth.
fn assert_near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 0.01,
        "{found}, expected {expected}"
    );
}

#[test]
fn a_lone_writer_takes_the_time_of_its_effects() {
    // A data file, a listing, the attempt, and a look at the version before it.
    let report = run(&on(StoreModel::ObjectStore(steady(50.0)))).unwrap();
    assert_near(report.appends_per_second, 1e3 / (40.0 + 20.0 + 30.0 + 50.0));
    assert_near(report.wait_seconds.median, 0.14);
    // The run ends between an attempt and its answer.
    assert!(report.attempts.abs_diff(report.versions) <= 1);

    let disk = disk();
    let work = ProcessorTimes {
        prepare_us: 300,
        write_us: 900,
        ..ProcessorTimes::default()
    };
    let report = run(&Scenario {
        work,
        ..on(StoreModel::Disk(disk))
    })
    .unwrap();
    let synced = [disk.put_version, disk.sync_data, disk.sync_log];
    let synced: u64 = synced.iter().map(|each| each.cpu_us + each.disk_us).sum();
    let all = work.prepare_us + work.write_us + disk.read_version_us + disk.list_intents_us + synced;
    assert_near(
        report.appends_per_second,
        1e6 / f64::from(u32::try_from(all).unwrap()),
    );
}

#[test]
fn a_slower_conditional_put_lowers_the_throughput() {
    for processes in [1, 8] {
        let rate = |milliseconds| {
            let scenario = Scenario {
                processes,
                writers: 4 * processes,
                ..on(StoreModel::ObjectStore(steady(milliseconds)))
            };
            run(&scenario).unwrap().appends_per_second
        };
        let rates = [40.0, 80.0, 160.0].map(rate);
        assert!(rates.is_sorted_by(|faster, slower| faster > slower), "{rates:?}");
    }
}

#[test]
fn fewer_cores_lower_the_throughput() {
    let rate = |cores| {
        let scenario = Scenario {
            cores,
            processes: 8,
            writers: 64,
            work: ProcessorTimes {
                write_us: 2_000,
                ..ProcessorTimes::default()
            },
            load: endless(5.0),
            ..on(StoreModel::Disk(disk()))
        };
        run(&scenario).unwrap()
    };
    let rates = [1, 2, 4].map(|cores| rate(cores).appends_per_second);
    assert!(rates.is_sorted_by(|fewer, more| fewer < more), "{rates:?}");
    // All that one core does.
    assert!(rates[0] <= 500.0, "{rates:?}");
}

#[test]
fn appends_that_come_at_a_rate_are_committed_at_that_rate() {
    let load = Load::Endless {
        warm_up_seconds: 10.0,
        seconds: 100.0,
        each_per_second: Some(0.2),
    };
    let report = run(&Scenario {
        processes: 4,
        writers: 200,
        load,
        ..Scenario::default()
    })
    .unwrap();
    assert!((36.0..44.0).contains(&report.appends_per_second), "{report:?}");
}

/// Many writers, whose data files are in one prefix that takes few of them.
fn narrow(coalesce: bool) -> Report {
    let store = ObjectStore {
        writes_per_second: 20.0,
        ..ObjectStore::default()
    };
    let scenario = Scenario {
        processes: 2,
        writers: 100,
        coalesce,
        ..on(StoreModel::ObjectStore(store))
    };
    run(&scenario).unwrap()
}

#[test]
fn no_more_files_are_written_than_a_prefix_takes_and_shared_files_hold_more_appends() {
    let (alone, shared) = (narrow(false), narrow(true));
    // One may have been written before the time that counts.
    assert!(alone.appends_per_second < 20.5, "{}", alone.appends_per_second);
    assert!(shared.appends_per_second > 2.0 * alone.appends_per_second);
    assert!(shared.requests.put_data < shared.appends / 4);
}

#[test]
fn each_table_has_a_log_of_its_own() {
    let rate = |tables| {
        let scenario = Scenario {
            processes: 2,
            writers: 48,
            // Five of them fill a version.
            files: 1_000,
            tables,
            load: endless(10.0),
            store: StoreModel::ObjectStore(ObjectStore {
                writes_per_second: 0.0,
                put: Latency::exactly(0.0),
                ..steady(3_000.0)
            }),
            ..Scenario::default()
        };
        run(&scenario).unwrap()
    };
    let (one, three) = (rate(1), rate(3));
    assert!(three.appends_per_second > 2.0 * one.appends_per_second);
    assert!(three.versions > one.versions);
}

#[test]
fn requests_cost_what_the_store_asks_for_them() {
    let report = run(&on(StoreModel::ObjectStore(ObjectStore::default()))).unwrap();
    let requests = report.requests;
    // Each append writes a file, lists, creates a version, and looks for the one before it. Only the first ones look
    // for the next version: nobody else comes. The run ends within one.
    let each = [
        requests.put_data,
        requests.list,
        requests.conditional_put,
        requests.head,
    ];
    assert!(
        each.iter().all(|count| count.abs_diff(report.appends) <= 1),
        "{requests:?}"
    );
    assert!(requests.get < 10, "{requests:?}");
    let expected = 3.0 * 0.005 / 1e3 + 0.0004 / 1e3;
    assert_near(report.usd_a_million, expected * 1e6);
    assert_near(report.usd_an_hour, expected * report.appends_per_second * 3_600.0);
}

#[test]
fn a_scenario_that_cannot_be_is_refused() {
    let wrong = |change: fn(&mut Scenario)| {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        run(&scenario).unwrap_err()
    };
    assert!(wrong(|scenario| scenario.hosts = 0).contains("over 0 hosts"));
    assert!(wrong(|scenario| scenario.processes = 2).contains("1 writers cannot be spread over 2 processes"));
    assert!(wrong(|scenario| scenario.files = 0).contains("must have a file"));
    let unknown: Result<Scenario, _> = serde_json::from_str(r#"{"writer":3}"#);
    assert!(unknown.unwrap_err().to_string().contains("writer"));
}
