// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"runtime/coverage"
	"strconv"
	"strings"
)

// coverageOf tells the statement coverage in percent of each function; -1 for one that was not
// built to be counted. Needs a driver built with -cover, and go on the path.
func coverageOf(functions []string, table string) map[string]float64 {
	found := map[string]float64{}
	for _, function := range functions {
		found[function] = -1
	}
	for _, line := range strings.Split(table, "\n") {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		file := strings.SplitN(fields[0], ":", 2)[0]
		name := fields[1][strings.LastIndex(fields[1], ".")+1:]
		percent, err := strconv.ParseFloat(strings.TrimSuffix(fields[2], "%"), 64)
		for _, function := range functions {
			want := strings.SplitN(function, ":", 2)
			if err == nil && strings.HasSuffix(file, "/"+want[0]) && want[1] == name {
				found[function] = percent
			}
		}
	}
	return found
}

func coverageTable() string {
	dir, err := os.MkdirTemp("", "coverage")
	must(err)
	defer os.RemoveAll(dir)
	must(coverage.WriteMetaDir(dir))
	must(coverage.WriteCountersDir(dir))
	table, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).Output()
	must(err)
	return string(table)
}
