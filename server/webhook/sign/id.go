package sign

import "strings"

// Ends of the webhook-id of a notice.
const (
	Done = "done"
	Dead = "dead"
)

// ID returns the webhook-id of a job: its ID if duly's client generated that,
// else NAMESPACE/QUEUE/ID. Two queues may have jobs with the same own ID.
//
// Every dot becomes a tilde, which no name and no ID contains.
func ID(namespace, queue, id string, generated bool) string {
	if !generated {
		id = namespace + "/" + queue + "/" + id
	}
	return strings.ReplaceAll(id, ".", "~")
}

// NoticeID returns the webhook-id of the notice about a job with that
// webhook-id. end is [Done] or [Dead].
func NoticeID(webhookID, end string) string { return webhookID + "/" + end }
