package schedule

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// Stored hashes are compared by later versions of duly. The expected hashes were computed by
// another program.
func TestHashesStayTheSame(t *testing.T) {
	t.Parallel()
	d := fullSchedule()
	if got := hex.EncodeToString(sliceOf(TimingHash(&d))); got != goldenTiming {
		t.Errorf("timing hash %s, want %s", got, goldenTiming)
	}
	if got := hex.EncodeToString(sliceOf(ContentHash(&d))); got != goldenContent {
		t.Errorf("content hash %s, want %s", got, goldenContent)
	}
	empty := duly.Schedule{Spec: "@daily"}
	if got := hex.EncodeToString(sliceOf(TimingHash(&empty))); got != goldenDaily {
		t.Errorf("timing hash %s, want %s", got, goldenDaily)
	}
	if got := hex.EncodeToString(sliceOf(ContentHash(&empty))); got != goldenEmpty {
		t.Errorf("content hash %s, want %s", got, goldenEmpty)
	}
}

const (
	goldenTiming  = "23ebb9d3f5f60bf2154522d87e850e6c11ba1d99dd6283ad20b1b10df532f610"
	goldenContent = "2eee32edc6751afbc66bd88e8c5324a16457c010d94b6d4f8e765d21c5611260"
	goldenDaily   = "0501c2a9809d7e346b429ce504b4d04f0465bab6620c197d06505f170c8dedb7"
	goldenEmpty   = "87f0463c44b15b2e609a26476ac787ef6c4875c0bf8c36def3e6c07374f32e59"
)

func sliceOf(h Hash) []byte { return h[:] }

// fullDefinition has no default.
func fullSchedule() duly.Schedule {
	return duly.Schedule{
		Name: "nightly", Spec: "0 3 * * *", Zone: "Europe/Berlin",
		Start: time.UnixMilli(1_000), End: time.UnixMilli(4_000_000_000_000),
		Jitter: time.Minute, Window: time.Hour, Catchup: duly.CatchupAll, Overlap: duly.OverlapAllow, Owner: "app",
		Template: duly.Job{
			Body: []byte("body"), Headers: map[string]string{"B": "2", "a": "1<"},
			Priority: 1, Tries: 2, MaxStalls: duly.None, Backoff: "fixed:5s", TTL: time.Hour, Lease: time.Minute,
			OrderKey: "o", Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace, MaxWait: time.Second, Until: duly.UntilDone},
			Callback: "https://example.com", OnDone: "none", OnDead: "target:x", Retain: time.Hour,
		},
	}
}

// Rules C17.15 and C17.118: each field changes one hash, and the name changes none. A new field of
// a job or of a definition fails this test until the hash includes it.
func TestEveryFieldChangesItsHash(t *testing.T) {
	t.Parallel()
	timing := map[string]bool{"Spec": true, "Zone": true, "Start": true, "End": true}
	none := map[string]bool{
		"Name": true, // the name identifies the schedule
		// A template can set none of these fields.
		"Template.ID": true, "Template.Namespace": true, "Template.Queue": true, "Template.Delay": true, "Template.Due": true,
		"Template.Made": true,
	}
	full := fullSchedule()
	eachField(reflect.TypeFor[duly.Schedule](), "", nil, func(name string, index []int) {
		d := fullSchedule()
		reflect.ValueOf(&d).Elem().FieldByIndex(index).SetZero()
		wantTiming := timing[name]
		wantContent := !wantTiming && !none[name]
		if got := TimingHash(&d) != TimingHash(&full); got != wantTiming {
			t.Errorf("%s changes the timing hash: %v, want %v", name, got, wantTiming)
		}
		if got := ContentHash(&d) != ContentHash(&full); got != wantContent {
			t.Errorf("%s changes the content hash: %v, want %v", name, got, wantContent)
		}
	})
}

// eachField calls f for every field, and for the fields of nested structs.
func eachField(typ reflect.Type, prefix string, index []int, f func(name string, index []int)) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		at := append(append([]int{}, index...), i)
		if field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[time.Time]() {
			eachField(field.Type, prefix+field.Name+".", at, f)
			continue
		}
		f(prefix+field.Name, at)
	}
}

// A definition with the same meaning has the same hashes, so putting it again changes nothing. In
// river#791, each deployment began the period again.
func TestSameDefinitionHasTheSameHashes(t *testing.T) {
	t.Parallel()
	short := duly.Schedule{Spec: "0 0 * * 0",
		Template: duly.Job{Headers: map[string]string{"A": "1"}, Merge: duly.Merge{Key: "m"}}}
	long := duly.Schedule{
		Spec: "0 0 * * 0", Zone: "UTC", Window: 24 * time.Hour, Catchup: duly.CatchupOne, Overlap: duly.OverlapSkip,
		Template: duly.Job{
			Body: []byte{}, Headers: map[string]string{"a": "1"},
			Merge: duly.Merge{Key: "m", Mode: duly.MergeKeep, Until: duly.UntilLeased},
		},
	}
	if TimingHash(&short) != TimingHash(&long) || ContentHash(&short) != ContentHash(&long) {
		t.Error("defaults that are spelled out change a hash")
	}

	// The location of a time.Time does not change the moment.
	berlin := time.FixedZone("", 3600)
	a, b := duly.Schedule{Start: time.UnixMilli(5000).UTC()}, duly.Schedule{Start: time.UnixMilli(5000).In(berlin)}
	if TimingHash(&a) != TimingHash(&b) {
		t.Error("the zone of a start changes the hash")
	}
	// 1970 is not the absence of a start.
	if TimingHash(&duly.Schedule{}) == TimingHash(&duly.Schedule{Start: time.UnixMilli(0)}) {
		t.Error("a start at 1970 does not change the hash")
	}
}
