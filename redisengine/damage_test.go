package redisengine_test

import (
	"strconv"
	"strings"
)

// damage is one way to damage a store. The numbers refer to the nineteen possible faults of job
// indexes.
type damage struct {
	name string
	harm func(r *damageRig)
	// found is the kind of fault that Check reports.
	found string
	// any other repair in the shard also repairs this damage, so the test applies it alone
	alone bool
}

// nobody is a job number that no job has.
const nobody = "0123456789abcdef"

// lost deletes the record of a job.
func lost(kind string) func(r *damageRig) {
	return func(r *damageRig) { r.take(kind).lose() }
}

// stray adds a member that belongs to no job to a set.
func stray(set string, more ...any) func(r *damageRig) {
	return func(r *damageRig) {
		r.do(append([]any{"ZADD", r.key(0, set), 1, "stray-in-" + (set + "-------")[:7]}, more...)...)
	}
}

// field sets a field of a hash of a job's shard.
func field(kind, hash, value string) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		v.on("HSET", hash, v.number, value)
	}
}

// cut cuts the job's field of a hash to a size.
func cut(kind, hash string, size int) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		v.on("HSET", hash, v.number, v.hash(hash, v.number)[:size])
	}
}

// recordCut cuts a job's record to a size. Its body or its name is lost.
func recordCut(kind string, size int) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		v.on("HSET", "records", v.number, v.hash("records", v.number)[:size])
		v.gone[v.name] = true
	}
}

// inRecord overwrites a part of a job's record.
func inRecord(kind string, at int, text string) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		record := v.hash("records", v.number)
		v.on("HSET", "records", v.number, record[:at]+text+record[at+len(text):])
		v.gone[v.name] = true
	}
}

// policyIs replaces the text of a job's policy.
func policyIs(kind, text string) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		v.on("HSET", "policies", v.policyPlace(), text)
	}
}

// policyPlace returns the field of the job's policy.
func (v victim) policyPlace() string { return v.hash("records", v.number)[6:7] }

// policyName returns the field that leads to the index of the job's policy.
func (v victim) policyName() string {
	v.Helper()
	all := v.on("HGETALL", "policies").([]any)
	for i := 0; i < len(all); i += 2 {
		if all[i+1] == v.policyPlace() {
			return all[i].(string)
		}
	}
	v.Fatalf("no field leads to the policy of %s", v.name)
	return ""
}

// inline stores the job's policy in its record.
func (v victim) inline(policy string) {
	v.Helper()
	record, at := v.hash("records", v.number), 8
	for _, moment := range []byte{1, 2} { // 1 is the due time, 2 the expiry
		if record[7]&moment != 0 {
			at += 6
		}
	}
	length := string([]byte{byte(len(policy) >> 8), byte(len(policy))})
	v.on("HSET", "records", v.number, record[:6]+"\xff"+record[7:at]+length+policy+record[at:])
}

// score moves a job within its set.
func score(kind, set string, by int) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		v.on("ZINCRBY", set, by, v.number)
	}
}

// misscored gives a job a score that is impossible in its state.
func misscored(kind, set, score string) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		member := v.number
		if set == "blocked" {
			member = v.member()
		}
		v.on("ZADD", set, score, member)
	}
}

func without(kind, set string) func(r *damageRig) {
	return func(r *damageRig) {
		v := r.take(kind)
		v.on("ZREM", set, v.number)
	}
}

var damages = []damage{
	{"1 RecordInNoSet", without("plain", "ready"), "job_in_no_set", false},
	{"1 DelayedRecordInNoSet", without("later", "delayed"), "job_in_no_set", false},
	{"1 DeadRecordInNoSet", without("buried", "dead"), "job_in_no_set", false},
	{"1 DoneRecordInNoSet", without("done", "done"), "job_in_no_set", false},
	{"1 BlockedRecordInNoSet", func(r *damageRig) {
		v := r.take("behind")
		v.on("ZREM", "blocked", v.member())
	}, "job_in_no_set", false},
	{"2 DelayedWithoutRecord", lost("later"), "entry_without_job", false},
	{"3 ReadyWithoutRecord", lost("own"), "entry_without_job", false},
	{"4 LeasedWithoutRecord", lost("head"), "entry_without_job", false},
	{"5 DeadWithoutRecord", lost("buried"), "entry_without_job", false},
	{"6 BlockedWithoutRecord", lost("waiting"), "entry_without_job", false},
	{"7 DoneWithoutRecord", lost("done"), "entry_without_job", false},
	{"7 LargeWithoutRecord", lost("large"), "body_without_job", false},
	{"2 StrayDelayed", stray("delayed"), "entry_without_job", false},
	{"3 StrayReady", stray("ready"), "entry_without_job", false},
	{"4 StrayLeased", stray("leased"), "entry_without_job", false},
	{"6 StrayBlocked", stray("blocked", 0, "?", 0, "\x03abc12345678"+nobody), "entry_without_job", false},
	{"6 EmptyBlocked", func(r *damageRig) { r.do("ZADD", r.key(0, "blocked"), "0.5", "") }, "entry_without_job", false},
	{"14 AliasWithoutName", func(r *damageRig) {
		v := r.take("plain")
		v.on("HSET", "alias", "", v.number)
	}, "alias_without_job", false},
	{"6 BlockedAtAnotherPlace", func(r *damageRig) {
		v := r.take("behind")
		m := v.member()
		v.on("ZREM", "blocked", m)
		v.on("ZADD", "blocked", 0, m[:len(m)-20]+"abcd"+v.number)
	}, "place_wrong", false},
	{"6 BlockedTwice", func(r *damageRig) {
		v := r.take("behind")
		v.on("ZADD", "blocked", 0, "\x02no12345678"+v.number)
	}, "place_wrong", false},
	{"6 BlockedWithoutKey", func(r *damageRig) {
		v := r.take("plain")
		v.on("ZREM", "ready", v.number)
		v.on("ZADD", "blocked", 0, "\x02no12345678"+v.number)
	}, "place_wrong", false},
	{"8 DelayedAndReady", func(r *damageRig) {
		v := r.take("later")
		v.on("ZADD", "ready", v.score("delayed"), v.number)
	}, "job_in_two_sets", false},
	{"9 ReadyAndLeased", func(r *damageRig) {
		v := r.take("merged")
		v.on("ZADD", "leased", r.clock.Now().UnixMilli(), v.number)
	}, "job_in_two_sets", false},
	{"10 LeasedAndDead", func(r *damageRig) {
		v := r.take("taken")
		v.on("ZADD", "dead", r.clock.Now().UnixMilli(), v.number)
	}, "job_in_two_sets", false},
	{"10 ReadyAtAnotherPlace", score("own", "ready", 5), "place_wrong", false},
	{"10 DelayedAtAnotherPlace", score("retry", "delayed", -90_000), "place_wrong", false},
	{"10 LeasedWithoutEnd", misscored("taken", "leased", "inf"), "place_wrong", false},
	{"10 LeasedToAFraction", misscored("taken", "leased", "1893456000000.5"), "place_wrong", false},
	{"10 DeadInAThousandYears", misscored("buried", "dead", "1e300"), "place_wrong", false},
	{"10 DoneAtNoTime", misscored("done", "done", "-inf"), "place_wrong", false},
	{"10 BlockedWithAScore", misscored("behind", "blocked", "5"), "place_wrong", false},
	{"11 LeasedWithoutEntry", without("taken", "leased"), "job_in_no_set", false},
	{"11 HeadWithoutEntry", without("head", "leased"), "job_in_no_set", false},
	{"12 BusyKeyWithoutJob", func(r *damageRig) { r.do("HSET", r.key(0, "busy"), "nobody's", nobody) },
		"order_key_wrong", false},
	{"12 BusyKeyWithoutName", func(r *damageRig) { r.do("HSET", r.key(0, "busy"), "", nobody) }, "order_key_wrong", false},
	{"12 BusyKeyWithoutNameOfAJob", func(r *damageRig) {
		v := r.take("plain")
		v.on("HSET", "busy", "", v.number)
	}, "order_key_wrong", false},
	{"12 BusyKeyOfAnother", func(r *damageRig) {
		v := r.take("head")
		v.on("HSET", "busy", v.key1(), nobody)
	}, "order_key_not_held", false},
	{"12 BusyKeyWithoutHead", func(r *damageRig) {
		v := r.take("head")
		v.lose()
		v.on("ZREM", "leased", v.number)
	}, "order_key_wrong", false},
	{"13 BlockedByNobody", func(r *damageRig) {
		v := r.take("stuck")
		v.on("HDEL", "busy", v.key1())
	}, "blocked_by_nobody", false},
	{"13 RunsWithoutKey", func(r *damageRig) {
		v := r.take("head")
		v.on("HDEL", "busy", v.key1())
	}, "order_key_not_held", false},
	{"14 AliasWithoutJob", func(r *damageRig) { r.do("HSET", r.key(0, "alias"), "inobody", nobody) },
		"alias_without_job", false},
	{"14 AliasLost", func(r *damageRig) {
		v := r.take("own")
		v.on("HDEL", "alias", v.alias("i"))
	}, "alias_missing", false},
	{"14 AliasOfAnother", func(r *damageRig) {
		v := r.take("own")
		v.on("HSET", "alias", v.alias("i"), nobody)
	}, "alias_missing", false},
	{"14 AliasOfNoKind", func(r *damageRig) { r.do("HSET", r.key(0, "alias"), "x", "y", "", "z") }, "alias_without_job",
		false},
	{"15 MergeKeyWithoutJob", func(r *damageRig) { r.do("HSET", r.key(0, "alias"), "m\x00nobody", nobody) },
		"merge_key_wrong", false},
	{"15 MergeKeyOfLeased", func(r *damageRig) {
		v, merged := r.take("merging"), r.take("merged")
		form := merged.alias("m")
		k := v.name[strings.LastIndex(v.name, "-")+1:]
		v.on("HSET", "alias", form[:strings.LastIndex(form, "m")]+"l"+k, v.number)
	}, "merge_key_wrong", false},
	{"15 MergeKeyLost", func(r *damageRig) {
		v := r.take("merged")
		v.on("HDEL", "alias", v.alias("m"))
	}, "merge_key_missing", false},
	{"15 MergeKeyOfRunningLost", func(r *damageRig) {
		v := r.take("until")
		v.on("HDEL", "alias", v.alias("m"))
	}, "merge_key_missing", false},
	{"15 OvertakenWithoutJob", func(r *damageRig) { r.do("HSET", r.key(0, "alias"), "o"+nobody, nobody) },
		"merge_key_wrong", false},
	{"15 OvertakenThatWaits", func(r *damageRig) {
		v := r.take("merged")
		v.on("HSET", "alias", "o"+v.number, v.number)
	}, "merge_key_wrong", false},
	{"15 ReplaceableWithoutJob", func(r *damageRig) { r.do("HSET", r.key(0, "alias"), "r\x00nobody", nobody) },
		"merge_key_wrong", false},
	{"15 ReplaceableOfAnotherMode", func(r *damageRig) {
		v := r.take("merging")
		v.on("HSET", "alias", "r\x00nobody", v.number)
	}, "merge_key_wrong", false},
	{"16 ExpiryWithoutJob", stray("expiry"), "expiry_without_job", false},
	{"16 ExpiryOfAnother", func(r *damageRig) {
		v := r.take("plain")
		v.on("ZADD", "expiry", 1, v.number)
	}, "expiry_without_job", false},
	{"16 ExpiryLost", without("brief", "expiry"), "expiry_missing", false},
	{"16 RetainLost", without("done", "expiry"), "expiry_missing", false},
	{"16 ExpiryAtAnotherMoment", score("brief", "expiry", 1), "expiry_missing", false},
	{"17 RunWithoutJob", func(r *damageRig) { r.do("HSET", r.key(0, "run"), nobody, strings.Repeat("x", 26)) },
		"run_without_job", false},
	{"17 BodyWithoutJob", func(r *damageRig) { r.do("HSET", r.key(0, "bodies"), nobody, "x") }, "body_without_job", false},
	{"17 BodyOfAnother", field("plain", "bodies", "x"), "body_without_job", false},
	{"17 BodyTwice", func(r *damageRig) {
		v := r.take("large")
		v.on("HSET", "records", v.number, v.hash("records", v.number)+"more")
	}, "body_twice", false},
	{"17 BodyLost", func(r *damageRig) {
		v := r.take("large")
		v.on("HDEL", "bodies", v.number)
		v.gone[v.name] = true
	}, "body_missing", false},
	{"17 BodyCut", cut("large", "bodies", 1000), "body_missing", false},
	{"17 RecordCut", recordCut("plain", 7), "job_unreadable", false},
	{"17 DueCut", recordCut("later", 13), "job_unreadable", false},
	{"17 ExpiryCut", recordCut("brief", 13), "job_unreadable", false},
	{"17 PriorityCut", recordCut("merged", 9), "job_unreadable", false},
	{"17 IDCut", recordCut("own", 12), "job_unreadable", false},
	{"17 IDLengthCut", recordCut("own", 8), "job_unreadable", false},
	{"17 OrderKeyCut", recordCut("behind", 10), "job_unreadable", false},
	{"17 MergeKeyCut", recordCut("merged", 11), "job_unreadable", false},
	{"17 SizeCut", recordCut("large", 11), "job_unreadable", false},
	{"17 HeadersLengthCut", recordCut("headed", 9), "job_unreadable", false},
	{"17 HeadersCut", recordCut("headed", 100), "job_unreadable", false},
	{"17 HeadersDamaged", inRecord("headed", 10, "\x7f"), "job_unreadable", false},
	{"17 PriorityBeyond", inRecord("merged", 8, "\x07\xd1"), "job_unreadable", false},
	{"17 IDOfNoKind", inRecord("own", 9, "m"), "job_unreadable", false},
	{"17 IDOfNoNumber", inRecord("own", 9, "n"), "job_unreadable", false},
	{"17 PolicyLost", func(r *damageRig) {
		v := r.take("brief")
		v.on("HDEL", "policies", v.policyPlace())
	}, "policy_missing", false},
	{"17 PolicyOfDoneLost", func(r *damageRig) {
		v := r.take("done")
		v.on("HDEL", "policies", v.policyPlace())
	}, "policy_missing", false},
	{"17 PolicyUnreadable", policyIs("merged", "\xdc\x00\x12"), "policy_missing", false},
	{"17 PolicyOfAnotherShape", policyIs("behind", "\x93\x01\x02\x03"), "policy_missing", false},
	{"17 PolicyEmpty", policyIs("brief", ""), "policy_missing", false},
	{"17 PolicyWithoutTries", policyIs("brief",
		"\x9d\x00\x08\xce\x01\xc9\xc3\x80\xff\xa0\xa0\xa0\x00\xa0\xa0\x01\xff\x00"), "policy_missing", false},
	{"17 PolicyOfNoMode", policyIs("brief", "\x9d\x01\x08\xce\x01\xc9\xc3\x80\xff\xa0\xa1x\xa0\x00\xa0\xa0\x01\xff\x00"),
		"policy_missing", false},
	{"17 OptionsWithoutPolicy", inRecord("merged", 6, "\x00"), "policy_missing", false},
	{"17 PolicyLeadsElsewhere", func(r *damageRig) {
		v := r.take("retry")
		v.on("HSET", "policies", v.policyName(), "\xfe")
	}, "policy_wrong", false},
	{"17 PolicyLeadsNowhere", func(r *damageRig) {
		r.do("HSET", r.key(0, "policies"), "pwhat", "\x01", "pis", "", "pthat", "\x01\x02")
	}, "policy_wrong", false},
	{"17 PolicyWithoutName", func(r *damageRig) {
		v := r.take("until")
		v.on("HDEL", "policies", v.policyName())
	}, "policy_wrong", false},
	{"17 PolicyOfNoKind", func(r *damageRig) {
		r.do("HSET", r.key(0, "policies"), "", "x", "what", "y", "\x00", "z", "\xff", "z")
	}, "policy_wrong", false},
	{"17 PolicyOfItsOwnDamaged", func(r *damageRig) { r.take("own").inline("no policy") }, "job_unreadable", false},
	{"17 PolicyOfItsOwnCut", func(r *damageRig) {
		v := r.take("own")
		v.inline("no policy")
		v.on("HSET", "records", v.number, v.hash("records", v.number)[:14])
		v.gone[v.name] = true
	}, "job_unreadable", false},
	{"17 RunUnreadable", cut("failed", "run", 20), "job_unreadable", false},
	{"17 RunOfBlockedUnreadable", field("waiting", "run", "x"), "job_unreadable", false},
	{"17 DoneUnreadable", field("done", "run", "x"), "job_unreadable", false},
	{"17 NumberUnreadable", func(r *damageRig) {
		r.do("HSET", r.key(0, "records"), "short",
			strings.Repeat("\x00", 14))
	}, "job_unreadable", false},
	{"18 CountersDoNotAddUp", func(r *damageRig) { r.do("HINCRBY", r.key(0, "tally"), "acked", 3) }, "counters_differ",
		false},
	{"18 CounterIsNoNumber", func(r *damageRig) {
		r.do("HSET", r.key(0, "tally"), "delivered", "many", "bucket_at",
			"now")
	}, "counters_differ", false},
	{"18 CounterCannotGrow", func(r *damageRig) {
		r.do("HSET", r.key(0, "tally"), "delivered", "9223372036854775807", "failed", "007", "later", "99999999999999999999")
	}, "counters_differ", false},
	{"18 CountersOfARepairAreNoNumbers", func(r *damageRig) {
		r.do("HSET", r.key(0, "tally"), "died", "", "dropped", "9223372036854775807")
		recordCut("plain", 7)(r)
		stray("ready")(r)
	}, "counters_differ", false},
	{"18 TallyLost", func(r *damageRig) {
		v := r.take("plain")
		v.on("DEL", "tally")
	}, "counters_differ", false},
	{"19 MomentMissed", func(r *damageRig) {
		v := r.take("later")
		v.on("ZREM", "marker", "later")
		v.on("HSET", "tally", "later", strconv.FormatInt(r.clock.Now().UnixMilli()*2, 10))
	}, "moment_missed", true},
	{"19 MomentForgotten", func(r *damageRig) {
		v := r.take("later")
		v.on("ZREM", "marker", "later")
		v.on("HDEL", "tally", "later")
	}, "moment_missed", true},
	{"20 LimiterWithoutAdaptiveLimits", func(r *damageRig) {
		r.do("HSET", r.key(0, "tally"), "limiter", "1 1"+strings.Repeat(" 0", 20))
	}, "limiter_wrong", false},
}

// key1 returns the order key of a head, or of a job to be retried.
func (v victim) key1() string {
	kind, i, _ := strings.Cut(v.name, "-")
	return map[string]string{"head": "k", "retry": "r", "stuck": "s"}[kind] + i
}
