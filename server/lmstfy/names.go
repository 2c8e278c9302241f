package lmstfy

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/dulymq/duly"
)

// nameForm tells whether a text has the form of a name, listForm of a list of
// them.
func nameForm(text string) bool { return formed(text, '_') }
func listForm(text string) bool { return formed(text, ',') }

// formed wants letters, digits, - and _, and one character more.
func formed(text string, more byte) bool {
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

// checkNames judges the names of every route but consume.
func checkNames(namespace, queue string) error {
	switch {
	case len(namespace) > duly.MaxName || len(queue) > duly.MaxName:
		return errTooLong
	case !nameForm(namespace):
		return errNamespace
	case queue[0] == '_' || !nameForm(queue):
		return errQueue
	}
	return nil
}

// checkList judges the names of a consume, whose last one is a list. Names that
// no queue can have are refused: they are misspelled.
func checkList(namespace, list string) error {
	switch {
	case !nameForm(namespace):
		return errNamespace
	case !listForm(list):
		return errQueue
	case len(namespace) > duly.MaxName:
		return errTooLong
	}
	for _, q := range queueList(list) {
		switch {
		case len(q) > duly.MaxName:
			return errTooLong
		case q[0] == '_':
			return errQueue
		}
	}
	return nil
}

// queueList is the list in its order, without empty names and repetitions.
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

// readQueues is the list of a consume, within the bounds of a Reserve.
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

// absent tells whether an error says that there is no such job: lmstfy's
// clients may ask for anything as an ID.
func absent(err error) bool {
	return errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrInvalid)
}

// errTooLongURL is for what the names leave over: an ID or a query.
var errTooLongURL = refuse(http.StatusRequestURITooLong, "url too long")
