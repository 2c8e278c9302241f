package lmstfy

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/dulymq/duly/server/route"
)

// Answers have the form of lmstfy's: keys in alphabetical order, and escaped markup.

var jsonType = []string{"application/json; charset=utf-8"}

// reply answers with a value as JSON. The fields of its type are in alphabetical order.
func reply(c *route.Call, status int, v any) error {
	return c.Reply(status, toJSON(v))
}

func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("lmstfy: " + err.Error()) // impossible, because only types of this package are encoded
	}
	return b
}

// job is a job in the answer to a consume or a peek. Its names and IDs need no escapes.
type job struct {
	attributes  map[string]string
	data        []byte
	elapsedMS   int64
	id          string
	msg         string // text of lmstfy's field msg; "" in a peek
	namespace   string
	queue       string
	remainTries int
	ttl         uint32
}

// size estimates the size of the job's JSON.
func (j *job) size() int {
	n := 256 + base64.StdEncoding.EncodedLen(len(j.data)) + len(j.id) + len(j.namespace) + len(j.queue)
	for name, value := range j.attributes {
		// An escape turns one byte of a value into up to six.
		n += 8 + len(name) + 6*len(value)
	}
	return n
}

// appendTo appends the job's JSON. It does not use encoding/json, which would hold the whole text
// twice. Without attributes that field is null. Without data that field is "".
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

// failure is the JSON body of an error answer.
type failure struct {
	Error string `json:"error"`
}

// message is the JSON body of an answer that lmstfy does not treat as an error.
type message struct {
	Msg string `json:"msg"`
}

// brokenLimit is the body of the error that a call could not be counted.
type brokenLimit struct {
	Err string `json:"err"`
}

// nothing writes the answer that no job is available.
func nothing(c *route.Call) error {
	return reply(c, http.StatusNotFound, message{"no job available"})
}
