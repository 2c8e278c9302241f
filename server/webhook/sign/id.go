package sign

import "strings"

// The kinds of notices. A webhook-id of a notice ends with its kind.
const (
	Done = "done"
	Dead = "dead"
)

// ID returns the webhook-id of a job: its ID if duly's client generated the ID, and
// NAMESPACE/QUEUE/ID otherwise, because two queues may have jobs with the same ID.
//
// Every dot becomes a tilde, which no name and no ID contains.
func ID(namespace, queue, id string, generated bool) string {
	if !generated {
		id = namespace + "/" + queue + "/" + id
	}
	return strings.ReplaceAll(id, ".", "~")
}

// NoticeID returns the webhook-id of a notice from its job's webhook-id. end is [Done]
// or [Dead].
func NoticeID(webhookID, end string) string { return webhookID + "/" + end }
