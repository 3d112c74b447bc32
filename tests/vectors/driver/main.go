// SPDX-License-Identifier: Apache-2.0

// The driver: reads cases as a JSON list on standard input, runs the original's functions of one
// area on each and writes their answers on standard output. What each area drives stands in
// docs/vectors.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sort"

	"k8s.io/klog/v2"
)

const commit = "a7a1b76bbf81abd26f9c377de1f31a60dd965f6e"

// answerer gives what the original makes of one case, as something that can be JSON.
type answerer func(raw json.RawMessage) any

type area struct {
	answer    answerer
	functions []string
}

var areas = map[string]area{}

// register adds an area; functions are those whose coverage is told, as "file.go:Name" with the
// end of the file's path.
func register(name string, answer answerer, functions ...string) {
	areas[name] = area{answer: answer, functions: functions}
}

type answers struct {
	Commit   string             `json:"commit"`
	Coverage map[string]float64 `json:"coverage"`
	Cases    []any              `json:"cases"`
}

func main() {
	withCoverage := flag.Bool("coverage", false, "tell the statement coverage of what is driven")
	loud := flag.Bool("loud", false, "let the original log to standard error")
	flag.Parse()
	silence(*loud)
	found, ok := areas[flag.Arg(0)]
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: driver [--coverage] AREA; areas:", names())
		os.Exit(2)
	}
	var cases []json.RawMessage
	must(json.NewDecoder(os.Stdin).Decode(&cases))
	told := answers{Commit: commit, Coverage: map[string]float64{}, Cases: []any{}}
	for _, each := range cases {
		told.Cases = append(told.Cases, guarded(found.answer, each))
	}
	if *withCoverage {
		told.Coverage = coverageOf(found.functions, coverageTable())
	}
	must(json.NewEncoder(os.Stdout).Encode(told))
}

func names() []string {
	found := []string{}
	for name := range areas {
		found = append(found, name)
	}
	sort.Strings(found)
	return found
}

func silence(loud bool) {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if !loud {
		must(flags.Set("logtostderr", "false"))
		must(flags.Set("stderrthreshold", "FATAL"))
		klog.SetOutput(io.Discard)
	}
}

// guarded turns a panic of the original's into an answer.
func guarded(answer answerer, raw json.RawMessage) (found any) {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Fprintf(os.Stderr, "panic: %v\n%s\n", reason, debug.Stack())
			found = map[string]any{"panic": fmt.Sprint(reason)}
		}
	}()
	return answer(raw)
}

func decode[T any](raw json.RawMessage) T {
	var found T
	must(json.Unmarshal(raw, &found))
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
