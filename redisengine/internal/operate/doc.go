// Package operate changes queues and jobs for an operator.
//
// A configuration changes first in the namespace's list and then in the shards (package catalog).
// An update reads the job, changes it, and writes it if it is unchanged in the store.
package operate
