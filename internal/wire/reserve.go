package wire

import (
	"time"

	"github.com/dulymq/duly"
)

// Reserve is the request of a reserve: what to take, and for how long to wait
// until there is something, 0 to duly.MaxWait; 0 does not wait.
type Reserve struct {
	duly.ReserveParams
	Wait time.Duration
}

// ReadReserve reads the request of a reserve. Max is 1 where it is absent.
func ReadReserve(text, namespace string, mode Mode) (q Reserve, err error) {
	q.Namespace, q.Max = namespace, 1
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "queues":
				q.Queues = r.strings(key, duly.MaxReserveQueues)
			case "max":
				q.Max = int(r.int(key))
			case "lease":
				q.Lease = r.lease(key)
			case "wait":
				q.Wait, _ = r.duration(key)
			case "consumer":
				q.Consumer = r.name(key)
			case "target":
				q.Target = r.name(key)
			default:
				r.unknown(key)
			}
		}
	})
	return q, err
}

// AppendReserve writes the request of a reserve.
func AppendReserve(dst []byte, q Reserve) []byte {
	o := begin(dst)
	texts(&o, "queues", q.Queues)
	o.int("max", int64(q.Max))
	if q.Lease != 0 {
		o.duration("lease", q.Lease)
	}
	if q.Wait != 0 {
		o.duration("wait", q.Wait)
	}
	o.text("consumer", q.Consumer)
	o.text("target", q.Target)
	return o.end()
}

// AppendDeliveries writes the answer to a reserve.
func AppendDeliveries(dst []byte, deliveries []duly.Delivery) []byte {
	o := begin(dst)
	list(&o, "deliveries", deliveries, func(dst []byte, d *duly.Delivery) []byte {
		o := begin(dst)
		o.stored(&d.Job, true)
		o.string("receipt", string(d.Receipt))
		o.int("attempt", int64(d.Attempt))
		o.int("failures", int64(d.Failures))
		o.int("stalls", int64(d.Stalls))
		o.time("lease_end", d.LeaseEnd)
		o.time("now", d.Now)
		o.time("pushed_at", d.PushedAt)
		o.time("expires_at", d.ExpiresAt)
		return o.end()
	})
	return o.end()
}

// ReadDeliveries reads the answer to a reserve.
func ReadDeliveries(text, namespace string) (deliveries []duly.Delivery, err error) {
	err = readList(text, "deliveries", func(r *reader) {
		d := duly.Delivery{Job: duly.Job{Namespace: namespace}}
		for key := range r.object {
			if !r.deliveryField(&d, key) && !r.storedField(&d.Job, key) {
				r.unknown(key)
			}
		}
		deliveries = append(deliveries, d)
	}, nil)
	return deliveries, err
}

func (r *reader) deliveryField(d *duly.Delivery, key string) (known bool) {
	switch key {
	case "receipt":
		d.Receipt = duly.Receipt(r.string(key))
	case "attempt":
		d.Attempt = int(r.int(key))
	case "failures":
		d.Failures = int(r.int(key))
	case "stalls":
		d.Stalls = int(r.int(key))
	case "lease_end":
		d.LeaseEnd = r.time(key)
	case "now":
		d.Now = r.time(key)
	case "pushed_at":
		d.PushedAt = r.time(key)
	case "expires_at":
		d.ExpiresAt = r.time(key)
	default:
		return false
	}

	return true
}

// ReadWait reads the request of a wait.
func ReadWait(text, namespace string, mode Mode) (p duly.WaitParams, err error) {
	p.Namespace = namespace
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "queues":
				p.Queues = r.strings(key, duly.MaxReserveQueues)
			case "wait":
				p.Timeout, _ = r.duration(key)
			default:
				r.unknown(key)
			}
		}
	})
	return p, err
}

// AppendWait writes the request of a wait.
func AppendWait(dst []byte, p duly.WaitParams) []byte {
	o := begin(dst)
	texts(&o, "queues", p.Queues)
	o.duration("wait", p.Timeout)
	return o.end()
}

// AppendReady writes the answer to a wait.
func AppendReady(dst []byte, ready bool) []byte {
	o := begin(dst)
	o.bool("ready", ready)
	return o.end()
}

// ReadReady reads the answer to a wait.
func ReadReady(text string) (ready bool, err error) { return readBool(text, "ready") }
