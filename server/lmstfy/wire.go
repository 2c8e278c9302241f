package lmstfy

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/dulymq/duly/server/route"
)

// Answers are written as lmstfy writes them: keys in alphabetical order, and
// markup escaped.

var jsonType = []string{"application/json; charset=utf-8"}

// reply answers a value as JSON. Its type has its fields in alphabetical order.
func reply(c *route.Call, status int, v any) error {
	return c.Reply(status, toJSON(v))
}

func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("lmstfy: " + err.Error()) // only types of this package
	}
	return b
}

// job is one as a consume or a peek tells it. Its names and IDs are the
// contract's and need no escapes.
type job struct {
	attributes  map[string]string
	data        []byte
	elapsedMS   int64
	id          string
	msg         string // "" in a peek
	namespace   string
	queue       string
	remainTries int
	ttl         uint32
}

// size is about how long the job's JSON is.
func (j *job) size() int {
	n := 256 + base64.StdEncoding.EncodedLen(len(j.data)) + len(j.id) + len(j.namespace) + len(j.queue)
	for name, value := range j.attributes {
		n += 8 + len(name) + 6*len(value)
	}
	return n
}

// appendTo does not go through encoding/json, which would have the whole text
// twice. No attributes are null, no data is "".
func (j *job) appendTo(b []byte) []byte {
	b = append(b, `{"attributes":`...)
	if len(j.attributes) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, toJSON(j.attributes)...)
	}
	b = append(b, `,"data":"`...)
	b = base64.StdEncoding.AppendEncode(b, j.data)
	b = append(b, `","elapsed_ms":`...)
	b = strconv.AppendInt(b, j.elapsedMS, 10)
	b = append(append(append(b, `,"job_id":"`...), j.id...), '"')
	if j.msg != "" {
		b = append(append(append(b, `,"msg":"`...), j.msg...), '"')
	}
	b = append(append(b, `,"namespace":"`...), j.namespace...)
	b = append(append(b, `","queue":"`...), j.queue...)
	b = strconv.AppendInt(append(b, `","remain_tries":`...), int64(j.remainTries), 10)
	b = strconv.AppendUint(append(b, `,"ttl":`...), uint64(j.ttl), 10)
	return append(b, '}')
}

func sizeOf(jobs []job) int {
	n := 2
	for i := range jobs {
		n += 1 + jobs[i].size()
	}
	return n
}

func appendJobs(b []byte, jobs []job) []byte {
	b = append(slices.Grow(b, sizeOf(jobs)), '[')
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = jobs[i].appendTo(b)
	}
	return append(b, ']')
}

// failure is the body of an answer that is an error.
type failure struct {
	Error string `json:"error"`
}

// message is the body of an answer that lmstfy does not call an error.
type message struct {
	Msg string `json:"msg"`
}

// brokenLimit is the body where a call could not be counted.
type brokenLimit struct {
	Err string `json:"err"`
}

// nothing answers that there is no job.
func nothing(c *route.Call) error {
	return reply(c, http.StatusNotFound, message{"no job available"})
}
