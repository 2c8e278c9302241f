// Package operate changes queues and jobs on behalf of an operator.
//
// A configuration changes in the namespace's list first and then in the shards
// (package catalog). An update reads the job, changes it here and writes it if it is
// still as it was read.
package operate
