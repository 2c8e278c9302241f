package redisengine

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/lua"
)

func layoutPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/redis-layout.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestScriptsHaveTheContractsNumbers checks that numbers in scripts are the contract's.
func TestScriptsHaveTheContractsNumbers(t *testing.T) {
	t.Parallel()
	lease, room := duly.DefaultLease.Microseconds(), duly.MaxBatchBytes
	usual := fmt.Sprintf("lease == '0' and %d or", lease)
	bare := fmt.Sprintf("{%d, %d, %d, %d, ''", duly.DefaultTries, duly.DefaultMaxStalls, lease, int(duly.None))
	for file, wants := range map[string][]string{
		"reserve.lua":         {usual, fmt.Sprintf("tonumber(room) < %d", room), fmt.Sprintf("room == '%d'", room)},
		"list.lua":            {fmt.Sprintf("tonumber(room) < %d and", room)},
		"include/policy.lua":  {"named_policy(" + bare},
		"include/careful.lua": {"DEFAULTS = " + bare},
	} {
		source, err := os.ReadFile("lua/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(source), want) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
}

// TestLayoutPageNamesEverything checks that the page names exactly the keys of a shard, the
// scripts with their flags, and the shared pieces (C11.15, C11.17).
func TestLayoutPageNamesEverything(t *testing.T) {
	t.Parallel()
	page := layoutPage(t)
	section := func(from, to string) string {
		_, rest, ok1 := strings.Cut(page, from)
		text, _, ok2 := strings.Cut(rest, to)
		if !ok1 || !ok2 {
			t.Fatalf("the page has no part from %q to %q", from, to)
		}
		return text
	}
	first := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
	same(t, "keys of a shard", find(first, section("### Of a shard", "### Of a topic")), store.ShardKeys[:])
	same(t, "keys of a topic and its groups", find(first, section("### Of a topic", "### Of a namespace")),
		slices.Concat(store.TopicKeys, store.GroupKeys))
	same(t, "scripts", find(first, section("## Scripts", "### What the common path")), lua.Names())

	flagged := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `?([^ `|]+)`? \\|")
	for _, m := range flagged.FindAllStringSubmatch(section("## Scripts", "### What the common path"), -1) {
		source, _, _ := strings.Cut(lua.Load(m[1]).Source, "\n")
		if _, flag, _ := strings.Cut(source, "flags="); flag != strings.Trim(m[2], "–") {
			t.Errorf("%s begins with %q, but the page says %q", m[1], source, m[2])
		}
	}

	pieces, err := os.ReadDir("lua/include")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces {
		if name := strings.TrimSuffix(p.Name(), ".lua"); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not name the piece %s", name)
		}
	}
	row := regexp.MustCompile("(?m)^\\| [0-9, ]+ \\| ((?:`[a-z_]+`,? ?)+)\\|")
	named := strings.Join(find(row, section("### A policy", "### An alias")), " ")
	same(t, "parts of a policy", strings.Fields(strings.ReplaceAll(named, "`", "")), policyNames(t))
}

// openOn opens an engine that only the test steps. A nil clock means the server's.
func openOn(t *testing.T, url string, c duly.Clock) *Engine {
	t.Helper()
	e, err := Open(t.Context(), Config{URL: url, Clock: c, Manual: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func find(re *regexp.Regexp, text string) (names []string) {
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(m[1], ",", ""))
	}
	return names
}

func same(t *testing.T, what string, page, code []string) {
	t.Helper()
	page, code = slices.Sorted(slices.Values(page)), slices.Sorted(slices.Values(code))
	if !slices.Equal(page, code) {
		t.Errorf("%s: the page has\n%v\nand the code\n%v", what, page, code)
	}
}

// policyNames returns the names of a policy's parts in include/policy.lua.
func policyNames(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("lua/include/policy.lua")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?ms)^local PARTS = \{(.*?)\}$`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("include/policy.lua names no parts")
	}
	return find(regexp.MustCompile(`([a-z_]+) = [0-9]+`), m[1])
}

// TestLayoutPageShowsTheStoredData checks that the page's examples match a store.
func TestLayoutPageShowsTheStoredData(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	ids := []string{"01K00000000000000000000001", "01K00000000000000000000002", "01K00000000000000000000003"}
	results, err := e.Push(t.Context(), []duly.Job{
		{Queue: "mail", ID: ids[0], Made: true, Body: []byte("hi"), Headers: map[string]string{"k": "v"}, Delay: time.Second},
		{Queue: "mail", ID: ids[1], Made: true, OrderKey: "ada", Priority: 1},
		{Queue: "mail", ID: ids[2], Made: true, OrderKey: "ada", Priority: 1},
	})
	for i, r := range results {
		if r.Err != nil || r.ID != ids[i] {
			t.Fatal(r)
		}
	}
	ds, err2 := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"mail"}, Max: 1})
	if err != nil || err2 != nil || len(ds) != 1 || ds[0].ID != ids[1] {
		t.Fatal(err, err2, ds)
	}
	delay := time.Minute
	errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Nack, Error: "no",
		Delay: &delay}})
	if err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}

	s := e.catalog.Cache.Get(duly.Q("mail").Normal()).Shards[0]
	var b strings.Builder
	for _, name := range store.ShardKeys {
		entries := entriesOf(server, s.Name(name))
		if name == "config" || name == "tally" { // a random value, which the page shortens
			continue
		}
		for _, entry := range entries {
			fmt.Fprintf(&b, "%-8s %s\n", name, entry)
		}
	}
	_, rest, _ := strings.Cut(layoutPage(t), "<!-- examples -->\n```\n")
	shown, _, _ := strings.Cut(rest, "```\n<!-- /examples -->")
	if shown != b.String() {
		t.Errorf("the page shows\n%s\nbut the store has\n%s", shown, b.String())
	}
}

// entriesOf returns a key's entries: fields with values, or members with scores.
func entriesOf(server *redistest.Server, key string) (entries []string) {
	texts := func(v any) (list []string) {
		for _, v := range v.([]any) {
			list = append(list, fmt.Sprint(v))
		}
		return list
	}
	var list []string
	kind := fmt.Sprint(server.Must("TYPE", key))
	switch kind {
	case "hash":
		list = texts(server.Must("HGETALL", key))
	case "zset":
		list = texts(server.Must("ZRANGE", key, 0, -1, "WITHSCORES"))
	}
	for ; len(list) > 1; list = list[2:] {
		value := list[1]
		if kind == "hash" {
			value = inHex(value)
		}
		entries = append(entries, inHex(list[0])+" → "+value)
	}
	slices.Sort(entries)
	return entries
}

// inHex returns a string in hex if it is not printable.
func inHex(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return s
	}
	return hex.EncodeToString([]byte(s))
}

// TestJobsUseOnlyDocumentedKeys checks that jobs of any number and kind are stored in the keys that the
// page names, and that those of a shard have one hash tag (C11.15, C11.14).
func TestJobsUseOnlyDocumentedKeys(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	if err := e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Rate: duly.Rate{PerSecond: 1e6}}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		n := fmt.Sprint(i)
		jobs := []duly.Job{
			{}, {Delay: time.Hour}, {ID: "own-" + n}, {OrderKey: "k" + n}, {OrderKey: "k" + n}, {Merge: duly.Merge{Key: n}},
			{TTL: time.Hour, Delay: time.Minute},
			{Retain: time.Hour, Priority: 9}, {Priority: 8}, {Body: make([]byte, codec.BigBody+1)},
		}
		for i := range jobs {
			jobs[i].Queue = "q"
		}
		if _, err := e.Push(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 250})
	if err != nil || len(ds) != 250 {
		t.Fatal(len(ds), err)
	}
	var outcomes []duly.SettleRequest
	for i, d := range ds[:230] {
		outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: []duly.Settlement{duly.Ack, duly.Bury}[i%2]})
	}
	if _, err := e.Settle(t.Context(), "", outcomes); err != nil {
		t.Fatal(err)
	}

	if _, err := e.PutSchedule(t.Context(), duly.Q("q"), duly.Schedule{Name: "nightly", Spec: "@daily"}); err != nil {
		t.Fatal(err)
	}

	want := []string{prefix + ":{default}:birth", prefix + ":namespaces", prefix + ":{default}:configs",
		prefix + ":{default}:queues", prefix + ":{tokens}:libraries"}
	for _, name := range store.ShardKeys {
		want = append(want, prefix+":{default/q/0}:"+name)
	}
	var got []string
	for _, key := range server.Must("KEYS", prefix+":*").([]any) {
		got = append(got, fmt.Sprint(key))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the keys are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
