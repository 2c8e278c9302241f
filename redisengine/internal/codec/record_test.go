package codec

import (
	"encoding/binary"
	"maps"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestPolicySurvivesPacking(t *testing.T) {
	full := policy{
		tries: 7, maxStalls: 3, backoff: "exp:2s:2h", lease: 90*time.Second + 1, ttl: 36 * time.Hour, retain: time.Hour,
		mode: duly.MergeReplace, until: duly.UntilDone, maxWait: time.Minute + 5,
	}
	for name, p := range map[string]policy{"the default": barePolicy, "all set": full} {
		if got, ok := readPolicy(p.Pack()); !ok || got != p {
			t.Errorf("%s: %+v is read as %+v, %t", name, p, got, ok)
		}
	}

	if got, ok := readPolicy(""); !ok || got != barePolicy {
		t.Errorf("a lost policy is read as %+v, %t; want the default", got, ok)
	}
	if _, ok := readPolicy(full.Pack()[:20]); ok {
		t.Error("a cut policy is read")
	}
}

func TestHeadersSurvivePacking(t *testing.T) {
	h := map[string]string{"A": "b", "empty": "", "long": string(make([]byte, 300))}
	packed := string(PackHeaders(h))
	if got, ok := UnpackHeaders(packed); !ok || !maps.Equal(got, h) {
		t.Errorf("%v is read as %v, %t", h, got, ok)
	}
	if _, ok := UnpackHeaders(packed[:len(packed)-1]); ok {
		t.Error("cut headers are read")
	}
}

// TestJobIsReadFromItsRecord reads a record as the scripts store it: head, due time, and the
// parts that the flags announce.
func TestJobIsReadFromItsRecord(t *testing.T) {
	number := duly.NewNumber()
	planned := contract.Planned{}
	planned.OrderKey, planned.MergeKey, planned.Priority, planned.Body = "order", "merge", -5, []byte("body")
	planned.Headers = map[string]string{"A": "b"}
	own := Alias("mine")
	flags := Flags(&planned, own) | HasDue

	record := binary.BigEndian.AppendUint64(nil, 1_700_000_000_000<<16)[:6]
	record = append(record, PlaceBare, flags)
	record = append(record, binary.BigEndian.AppendUint64(nil, 1_700_000_005_000<<16)[:6]...)
	record = binary.BigEndian.AppendUint16(record, uint16(planned.Priority+1000))
	record = AppendTail(record, &planned, own)

	var j Job
	if err := j.read(duly.Q("q").Normal(), string(number[:]), string(record), "", ""); err != nil {
		t.Fatal(err)
	}
	if j.ID != "mine" || j.OwnID != "mine" || j.OrderKey != "order" || j.MergeKey != "merge" || j.Priority != -5 ||
		string(j.Body) != "body" || j.Headers["A"] != "b" {
		t.Errorf("%+v", j)
	}
	if j.PushedAt != 1_700_000_000_000 || j.DueAt != 1_700_000_005_000 || !j.whole() {
		t.Errorf("the job was pushed at %d, is due at %d, whole %t", j.PushedAt, j.DueAt, j.whole())
	}

	for cut := range len(record) - len("body") {
		var j Job
		if j.read(duly.Q("q").Normal(), string(number[:]), string(record[:cut]), "", "") == nil {
			t.Errorf("the first %d of %d bytes are read as a job", cut, len(record))
		}
	}
}

func TestIDOfReturnsTheIDOfAnAlias(t *testing.T) {
	for _, id := range []string{duly.NewNumber().String(), "own", "n", "i"} {
		if got := IDOf(Alias(id)); got != id {
			t.Errorf("the alias of %q has the ID %q", id, got)
		}
	}
	if IDOf("") != "" {
		t.Error("an empty alias has an ID")
	}
}

func TestShortBackoff(t *testing.T) {
	for backoff, want := range map[duly.Backoff]string{
		duly.DefaultBackoff: "", "": "", "fixed:5s": "s5000", "exp:2s:2h": "e2000,7200000", "1s,2s,1m": "s1000,2000,60000",
	} {
		if got := ShortBackoff(backoff); got != want {
			t.Errorf("the short form of %q is %q, want %q", backoff, got, want)
		}
	}
}
