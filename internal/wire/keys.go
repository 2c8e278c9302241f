package wire

import "github.com/dulymq/duly/contract"

// The forms of order keys. KeysForm is a page of them.
var (
	KeysForm = Form[contract.KeyPage]((*fields).keyPage)
	KeyForm  = Form[contract.KeyInfo]((*fields).orderKey)
)

func (f *fields) keyPage(p *contract.KeyPage) {
	f.answer("Keys")
	list(f, "keys", &p.Keys, required, "The order keys of this page. Shorter keys come first, then the order is by bytes.",
		(*fields).orderKey)
	f.cursor(&p.Next)
}

func (f *fields) orderKey(k *contract.KeyInfo) {
	f.answer("Key")
	f.name("key", &k.Key, required, "", "The order key.")
	f.nested("head", k.Head.ID == "", optional, "The job that holds the key; absent if its TTL has just ended.",
		func() { f.keyHead(&k.Head) })
	f.int("waiting", &k.Waiting, required, "", "How many blocked jobs wait for the head, counted to 1000.")
	f.bool("more", &k.More, required, "True if more than 1000 jobs wait.")
	f.time("first_due", &k.FirstDue, optional, "When the first waiting job was due; absent if no job waits.")
}

func (f *fields) keyHead(h *contract.KeyHead) {
	f.answer("KeyHead")
	f.name("id", &h.ID, required, "", "The job's ID.")
	enum(f, "state", &h.State, required, `enum:"delayed,ready,leased"`, "The job's state, by the clock. "+
		"A delayed head waits for a retry or after a release.")
	f.time("due", &h.Due, required, "When the job is or was due.")
	f.time("lease_end", &h.LeaseEnd, optional, "When the lease runs out, for a leased job.")
}

// SizeOfKeys returns about the size of a page of order keys, in bytes.
func SizeOfKeys(p *contract.KeyPage) int {
	const rest = 256 // names of fields, times and numbers
	size := rest
	for i := range p.Keys {
		// An escaped byte of a key has at most six bytes.
		size += rest + 6*len(p.Keys[i].Key) + len(p.Keys[i].Head.ID)
	}
	return size
}
