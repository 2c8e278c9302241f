package lmstfy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Any query becomes a valid job, or a 400 with a text of lmstfy's.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "delay=1&ttl=2&tries=3", "ttl=", "ttl", "delay=4294967296", "tries=0",
		"tries=1&tries=0", "limit=-1", "delay=%zz", "a;b=1", "count=1_0", "delay=+1", "?Array"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p := readParams(raw)
		for name, values := range (&url.URL{RawQuery: raw}).Query() {
			if got, given := p.find(name); !given || got != values[0] {
				t.Errorf("%q: %s is %q, want %q", raw, name, got, values[0])
			}
		}

		r, err := readRules(p, StandardDefaults())
		if err != nil {
			refusedWith(t, err, "invalid delay", "invalid ttl", "invalid tries", "ttl is shorter than delay",
				"tries shouldn't be zero")
		} else {
			job := r.newJob(duly.QueueRef{Namespace: "ns", Name: "q"}, nil, nil, true)
			if err := contract.ValidateJob(&job, 0); err != nil {
				t.Errorf("%q: %v", raw, err)
			}
			if job.TTL > 0 && job.TTL < job.Delay || job.Tries < 1 || job.Tries > duly.MaxTries {
				t.Errorf("%q: %+v", raw, job)
			}
		}

		if n, err := readLimit(p); err != nil {
			refusedWith(t, err, "invalid limit")
		} else if n < 1 {
			t.Errorf("%q: limit %d", raw, n)
		}
	})
}

func refusedWith(t *testing.T, err error, texts ...string) {
	t.Helper()
	status, body := fail(nil, err)
	for _, text := range texts {
		if want, _ := json.Marshal(map[string]string{"error": text}); status == http.StatusBadRequest &&
			bytes.Equal(body, want) {
			return
		}
	}
	t.Errorf("%d %s", status, body)
}

// Any headers become valid headers of a job.
func FuzzAttributes(f *testing.F) {
	f.Add("YES", "Job-Attr-A", "b", "Job-Attr-"+strings.Repeat("x", 40), "\xff", 3)
	f.Add("yes", "Job-Attr-", "", "Job-Attr-Trace-Id", strings.Repeat("é", 100), 20)

	f.Fuzz(func(t *testing.T, on, name1, value1, name2, value2 string, more int) {
		h := http.Header{"Enable-Job-Version": {on}}
		set := func(name, value string) {
			if headerName(name) && !strings.ContainsAny(value, "\x00\r\n") { // net/http refuses other headers
				h.Set(name, value)
			}
		}
		set(name1, value1)
		set(name2, value2)
		for i := range min(max(more, 0), 100) {
			set("Job-Attr-"+strings.Repeat("n", i+1), value1+value2+"v")
		}
		attributes, versioned, err := readAttributes(h)
		if err != nil {
			refusedWith(t, err, "too many attributes, cannot exceed 16")
			return
		}
		if !versioned && attributes != nil || len(attributes) > maxAttributes {
			t.Errorf("%v", attributes)
		}
		job := duly.Job{Namespace: "ns", Queue: "q", Headers: attributes}
		if err := contract.ValidateJob(&job, 0); err != nil {
			t.Errorf("%q: %v", h, err)
		}
		for name, value := range attributes {
			if len(name) > maxAttributeName || name != strings.ToLower(name) || !utf8.ValidString(value) ||
				value == "" {
				t.Errorf("%q: %q", name, value)
			}
		}
	})
}

// headerName reports whether net/http accepts name as the name of a header.
func headerName(name string) bool {
	for _, c := range []byte(name) {
		if !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return name != ""
}

// Accepted names and lists of names are valid names of an engine.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"q", "a,b", ",", "_q", "-q", "q,,q", "a.b", "é", "q\x00", strings.Repeat("x", 256),
		"..", "a\n"} {
		f.Add("ns", s)
		f.Add(s, "q")
	}
	f.Fuzz(func(t *testing.T, namespace, list string) {
		if namespace == "" || list == "" {
			return // the router refuses this request
		}
		if err := checkNames(namespace, list); err != nil {
			refusedWith(t, err, errTooLong.Error(), errNamespace.Error(), errQueue.Error())
		} else if err := contract.ValidateQueue(duly.QueueRef{Namespace: namespace, Name: list}); err != nil {
			t.Errorf("%q %q: %v", namespace, list, err)
		}

		if err := checkList(namespace, list); err != nil {
			refusedWith(t, err, errTooLong.Error(), errNamespace.Error(), errQueue.Error())
			return
		}
		names, err := readQueues(list)

		if err != nil {
			refusedWith(t, err, "invalid queue name(s)", "too many queues, cannot exceed 100")
			return
		}
		p := duly.ReserveParams{Namespace: namespace, Queues: names, Max: 1}
		if err := contract.ValidateReserve(&p); err != nil {
			t.Errorf("%q %q: %v", namespace, list, err)
		}
	})
}

// The elements of a bulk publish are the same as those that encoding/json finds.
func FuzzElements(f *testing.F) {
	for _, s := range []string{"[]", "null", " [1, {\"a\":\"]\"} ,null]\n", "[\"\\\"],\",[]]", "[1,]", "", "[[[", "{}",
		"[\"\\\\\",2]", "[1]x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := elements(text)
		var want []json.RawMessage
		wrong := json.Unmarshal(text, &want)

		if err != nil {
			refusedWith(t, err, "request body should be an array of objects", "no jobs", "too many jobs")
			if wrong == nil && len(want) > 0 && len(want) <= maxJobs {
				t.Errorf("%q: %v", text, err)
			}
			return
		}

		if wrong != nil || len(got) != len(want) {
			t.Fatalf("%q is %q, want %q, %v", text, got, want, wrong)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%q: element %d is %q, want %q", text, i, got[i], want[i])
			}
		}
	})
}

// Any header X-Token is a valid token or refused.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"", ":", "a", ":a", "a:", "a:b:c", "default:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		inPool, token := splitToken(text)
		if strings.HasPrefix(text, ":") != (inPool == contract.DefaultPool &&
			!strings.HasPrefix(text, contract.DefaultPool)) {
			t.Errorf("%q has the pool %q", text, inPool)
		}
		if (text != token || inPool != "") && text != ":"+token && text != inPool+":"+token {
			t.Errorf("%q is %q and %q", text, inPool, token)
		}
		if GivenHash("a", text) == GivenHash("b", text) || GivenHash("a", text) == GivenHash("a", text+"x") {
			t.Errorf("%q has the hash of another token", text)
		}
	})
}
