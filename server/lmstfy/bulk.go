package lmstfy

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/route"
)

// maxJobs is the maximum number of jobs in one bulk publish.
const maxJobs = 64

type publishedBulk struct {
	JobIDs []string `json:"job_ids"`
	Msg    string   `json:"msg"`
}

// publishBulk publishes the elements of an array, each as its raw JSON.
func (a *API) publishBulk(c *route.Call) error {
	// Bad parameters are refused before the body takes memory.
	r, err := readRules(query(c), a.defaults)
	if err != nil {
		return err
	}

	body, err := c.BodyBytes()
	if err != nil {
		return badBody(err)
	}
	bodies, err := elements(body)
	if err != nil {
		return err
	}
	attributes, versioned, err := readAttributes(c.R.Header)
	if err != nil {
		return err
	}

	jobs := make([]duly.Job, len(bodies))
	ids := make([]string, len(bodies))
	for i, body := range bodies {
		jobs[i] = r.newJob(queue(c), body, attributes, versioned)
		ids[i] = jobs[i].ID
	}
	if err := a.store(c, jobs); err != nil {
		return err
	}
	return reply(c, http.StatusCreated, publishedBulk{ids, "published"})
}

// elements splits a JSON array into the texts of its elements, up to the limits of a bulk publish.
// It copies nothing, because the text may be long and have many elements.
func elements(text []byte) ([][]byte, error) {
	text = bytes.Trim(text, whitespace)
	// Valid text lets elementEnd count brackets without errors.
	array := json.Valid(text) && text[0] == '['
	switch {
	case string(text) == "null":
		return nil, badRequest("no jobs")
	case !array:
		return nil, badRequest("request body should be an array of objects")
	}

	var list [][]byte
	for rest := text[1:]; ; {
		n := elementEnd(rest)
		element := bytes.Trim(rest[:n], whitespace)
		if len(list) == 0 && len(element) == 0 {
			return nil, badRequest("no jobs")
		}
		// The bound is checked before the list grows, because a string may have millions of elements.
		if len(list) == maxJobs {
			return nil, badRequest("too many jobs")
		}
		list = append(list, element)
		if rest[n] == ']' {
			return list, checkSizes(list)
		}
		rest = rest[n+1:]
	}
}

const whitespace = " \t\r\n"

// elementEnd returns where the first element of a valid array ends: at the comma or the bracket
// that follows it.
func elementEnd(text []byte) int {
	depth, quoted := 0, false
	for i := 0; ; i++ {
		switch c := text[i]; {
		// The next character may be an escaped quote.
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case depth == 0 && (c == ',' || c == ']'):
			return i
		case c == ']' || c == '}':
			depth--
		}
	}
}

func checkSizes(list [][]byte) error {
	for _, element := range list {
		if len(element) > maxBody {
			return refuse(http.StatusRequestEntityTooLarge, "job too large")
		}
	}
	return nil
}
