// Package hashslot computes the hash slots of a Redis Cluster
// (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec), and
// distributes the shards of a queue over them.
package hashslot
