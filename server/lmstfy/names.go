package lmstfy

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/dulymq/duly"
)

// isName reports whether a string may be a name. isList reports whether it may be a list of names.
func isName(text string) bool { return consistsOf(text, '_') }
func isList(text string) bool { return consistsOf(text, ',') }

// consistsOf reports whether a string has only letters, digits, -, _ and the given character.
func consistsOf(text string, more byte) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != more {
			return false
		}
	}
	return text != ""
}

var (
	errTooLong   = badRequest("namespace or queue name too long")
	errNamespace = badRequest("namespace name contains forbidden characters")
	errQueue     = badRequest("queue name contains forbidden characters")
)

// checkNames checks the names of every route except consume.
func checkNames(namespace, queue string) error {
	switch {
	case len(namespace) > duly.MaxName || len(queue) > duly.MaxName:
		return errTooLong
	case !isName(namespace):
		return errNamespace
	// The router matches no empty segment, so the queue has a first byte.
	case queue[0] == '_' || !isName(queue):
		return errQueue
	}
	return nil
}

// checkList checks the namespace and the list of queues of a consume. It refuses names that no
// queue can have, because they must be misspelled.
func checkList(namespace, list string) error {
	switch {
	case !isName(namespace):
		return errNamespace
	case !isList(list):
		return errQueue
	case len(namespace) > duly.MaxName:
		return errTooLong
	}

	for _, q := range queueList(list) {
		switch {
		case len(q) > duly.MaxName:
			return errTooLong
		// queueList drops empty names, so each has a first byte.
		case q[0] == '_':
			return errQueue
		}
	}
	return nil
}

// queueList returns the names of a list in order, without empty names and duplicates.
func queueList(list string) []string {
	if list != "" && strings.IndexByte(list, ',') < 0 {
		return []string{list}
	}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// readQueues returns the names of a consume, within the bounds of a Reserve.
func readQueues(list string) ([]string, error) {
	names := queueList(list)
	switch {
	case len(names) == 0:
		return nil, badRequest("invalid queue name(s)")
	case len(names) > duly.MaxReserveQueues:
		return nil, badRequest("too many queues, cannot exceed 100")
	}
	return names, nil
}

// isAbsent reports whether an error means that there is no such job. lmstfy's clients may use
// any text as an ID.
func isAbsent(err error) bool {
	return errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrInvalid)
}

// errTooLongURL is for a long ID or query. Names have separate limits.
var errTooLongURL = refuse(http.StatusRequestURITooLong, "url too long")
