package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

func jsonValid(text string) bool { return json.Valid([]byte(text)) }

var benchPush = `{"jobs":[{"queue":"bench","body":"` + strings.Repeat("x", 100) + `"}]}`

func BenchmarkReadPush(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadPush(benchPush, "default"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadPushByReflection measures the strict decoder of encoding/json for the same text.
func BenchmarkReadPushByReflection(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var v struct {
			Jobs []struct{ Queue, Body string }
		}
		d := json.NewDecoder(strings.NewReader(benchPush))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPushResults(b *testing.B) {
	results := []duly.PushResult{{ID: "01J0000000000000000000000A", Status: duly.Created}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		PushedForm.Append(buf, results)
	}
}

func BenchmarkAppendDeliveries(b *testing.B) {
	j := storedJob()
	j.Body, j.Headers, j.Merge = []byte(strings.Repeat("x", 100)), nil, duly.Merge{}
	deliveries := []duly.Delivery{{Job: j, Receipt: "q:0:01J0000000000000000000000A:1", Attempt: 1, LeaseEnd: when,
		Now: when, PushedAt: when}}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		DeliveriesForm.Append(buf, deliveries)
	}
}
