package hashslot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// The slots of a queue's shards are spread evenly: if some nodes divide the slots among them, no
// node has more than its share of the shards, rounded up.
//
// C11.14
func TestShardsAreSpreadOverTheSlots(t *testing.T) {
	t.Parallel()
	for q := range 200 {
		ref := duly.QueueRef{Namespace: "shop", Name: fmt.Sprintf("q%d", q)}
		for _, shards := range []int{2, 4, 8, 16, 32, 256} {
			for _, nodes := range []int{2, 3, 4, 5, 6} {
				held := make([]int, nodes)
				for i := range shards {
					held[int(Of(ShardTag(ref, i)))*nodes/Slots]++
				}
				for node, n := range held {
					if most := (shards + nodes - 1) / nodes; n > most {
						t.Fatalf("%s: node %d of %d holds %d of %d shards, at most %d are its share", ref.Name, node, nodes, n, shards,
							most)
					}
				}
			}
		}
	}
}

// Of returns the slots of the examples in the cluster specification.
func TestOfReturnsTheSlotsOfTheSpecification(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint16{
		"123456789": 0x31c3, "foo{hash_tag}": Of("hash_tag"), "foo{}bar": Of("foo{}bar"),
		"{user1000}.following": Of("user1000"),
		"foo{{bar}}zap":        Of("{bar"), "foo{bar}{zap}": Of("bar"),
	} {
		if got := Of(key); got != want {
			t.Errorf("the slot of %s is %d, want %d", key, got, want)
		}
	}
}

// The tags of all shards differ, and name the queue and the shard.
func TestTagsOfAllShardsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range duly.MaxShards {
		tag := ShardTag(duly.Q("mail"), i)
		if !strings.HasPrefix(tag, fmt.Sprintf("default/mail/%d", i)) || seen[tag] {
			t.Errorf("shard %d has the tag %s", i, tag)
		}
		seen[tag] = true
	}
	if tag := ShardTag(duly.Q("mail"), 0); tag != "default/mail/0" {
		t.Errorf("the first shard has the tag %s", tag)
	}
}

// The tags are part of the stored layout, so these must never change.
func TestShardTagsNeverChange(t *testing.T) {
	t.Parallel()
	for i, want := range []string{
		"default/mail/0", "default/mail/1.0mj6", "default/mail/2.0ael", "default/mail/3.09b1",
		"default/mail/4.0cj6", "default/mail/5.03ds", "default/mail/6.0qh7", "default/mail/7.00db",
	} {
		if tag := ShardTag(duly.Q("mail"), i); tag != want {
			t.Errorf("shard %d has the tag %s, not %s", i, tag, want)
		}
	}
}

func BenchmarkShardTag(b *testing.B) {
	for b.Loop() {
		ShardTag(duly.Q("mail"), 7)
	}
}
