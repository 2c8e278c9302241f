package link

import (
	"sync"

	"github.com/redis/rueidis"
)

// lanes are the connections for batches that wait: each serves one at a time.
type lanes struct {
	mu     sync.Mutex
	idle   map[string][]*batchLane // by node
	owners map[uint16]string       // which node owns a slot, as far as learnt
	closed bool
}

// idleLanes is how many connections are kept per node.
const idleLanes = 4

// batchLane is a connection and the news of its end.
type batchLane struct {
	client rueidis.DedicatedClient
	dead   <-chan error
}

// owner is the node to try first: the only one there is, the one that is known
// to own the slot, or any, which then says where to go.
func (s *lanes) owner(l *core, key string) string {
	nodes := l.main.Nodes()
	s.mu.Lock()
	place := s.owners[slot(key)]
	s.mu.Unlock()
	if nodes[place] != nil {
		return place
	}
	for addr := range nodes {
		return addr
	}
	return ""
}

// owns notes what was learnt.
func (s *lanes) owns(key, place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners == nil {
		s.owners = map[uint16]string{}
	}
	s.owners[slot(key)] = place
}

// lost forgets an owner that has failed.
func (s *lanes) lost(key, place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners[slot(key)] == place {
		delete(s.owners, slot(key))
	}
}

// take is a connection to the node, for one batch.
func (s *lanes) take(l *core, place string) (*batchLane, error) {
	for {
		lane := s.kept(place)
		if lane == nil {
			break
		}
		select {
		case <-lane.dead:
			lane.client.Close()
		default:
			return lane, nil
		}
	}
	client := l.main.Nodes()[place]
	if client == nil {
		return nil, rueidis.ErrNoSlot // the client library has not heard of it yet
	}
	dedicated, _ := client.Dedicate()
	return &batchLane{client: dedicated, dead: dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})}, nil
}

func (s *lanes) kept(place string) *batchLane {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.idle[place]
	if len(idle) == 0 {
		return nil
	}
	s.idle[place] = idle[:len(idle)-1]
	return idle[len(idle)-1]
}

// give keeps a connection for the next batch if it is good.
func (s *lanes) give(place string, lane *batchLane, good bool) {
	s.mu.Lock()
	good = good && !s.closed && len(s.idle[place]) < idleLanes
	if good {
		if s.idle == nil {
			s.idle = map[string][]*batchLane{}
		}
		s.idle[place] = append(s.idle[place], lane)
	}
	s.mu.Unlock()
	if !good {
		lane.client.Close()
	}
}

func (s *lanes) close() {
	s.mu.Lock()
	all := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, idle := range all {
		for _, lane := range idle {
			lane.client.Close()
		}
	}
}
