package lmstfyimport

import (
	"encoding/binary"
	"testing"
)

// le returns n as two bytes, the lower one first.
func le(n int) string { return string(binary.LittleEndian.AppendUint16(nil, uint16(n))) }

// packed returns texts with their lengths, like lmstfy's struct package packs them.
func packed(texts ...string) (out string) {
	for _, text := range texts {
		out += le(len(text)) + text
	}
	return out
}

// An entry is read whole or refused.
func TestEntryIsReadWholeOrRefused(t *testing.T) {
	t.Parallel()
	const id = "01HF7YAT00041061050R000000"
	if e, ok := unpackEntry(le(3) + packed(id)); !ok || e.tries != 3 || e.id != id {
		t.Errorf("%+v, %v", e, ok)
	}
	if e, ok := unpackTimer(packed("ns", "q") + le(65535) + packed(id)); !ok || e != (entry{"ns", "q", 65535, id}) {
		t.Errorf("%+v, %v", e, ok)
	}

	for _, bad := range []string{"", "a", le(1), le(1) + le(5) + "abc", le(1) + packed(id) + "x", le(1) + packed("")} {
		if e, ok := unpackEntry(bad); ok {
			t.Errorf("%q is %+v", bad, e)
		}
		if e, ok := unpackTimer(packed("ns", "q") + bad); ok {
			t.Errorf("%q is %+v", bad, e)
		}
	}

	if e, ok := unpackTimer(packed("", "q") + le(1) + packed(id)); ok {
		t.Errorf("an entry without a namespace is %+v", e)
	}
}

// The first letter of a job's ID is the version of its payload.
func TestUnpackPayloadByVersionOfID(t *testing.T) {
	t.Parallel()
	const id = "01HF7YAT00041061050R000000"
	if p, ok := unpackPayload(id, `{"body":"YQ=="}`); !ok || string(p.Body) != `{"body":"YQ=="}` {
		t.Errorf("%+v, %v", p, ok)
	}
	if p, ok := unpackPayload("1"+id, `{"body":"YQ==","attributes":{"a":"b"}}`); !ok || string(p.Body) != "a" ||
		p.Attributes["a"] != "b" {
		t.Errorf("%+v, %v", p, ok)
	}
	for packing, text := range map[string]string{"1": "no JSON", "2": `{"body":"YQ=="}`} {
		if p, ok := unpackPayload(packing+id, text); ok {
			t.Errorf("%s %s is %+v", packing, text, p)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add(packed("ns", "q") + le(1) + packed("id"))
	f.Add(le(1) + packed("id"))
	f.Fuzz(func(t *testing.T, text string) {
		if e, ok := unpackEntry(text); ok && le(e.tries)+packed(e.id) != text {
			t.Errorf("%q is %+v", text, e)
		}
		if e, ok := unpackTimer(text); ok && packed(e.namespace, e.queue)+le(e.tries)+packed(e.id) != text {
			t.Errorf("%q is %+v", text, e)
		}
	})
}
