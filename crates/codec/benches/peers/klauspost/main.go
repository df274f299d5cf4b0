// Runs one case of github.com/klauspost/reedsolomon per input line and prints its CPU nanoseconds.
//
//	peer CODE I R SHARD_BYTES GROUPS LOST     CODE: gf8 (matrix), leo8, leo16; LOST 0 encodes
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/klauspost/reedsolomon"
)

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		panic(err)
	}
	return n
}

func cpu() int64 {
	const processCPU = 2
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, processCPU, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err)
	}
	return t.Nano()
}

func main() {
	information, redundancy, bytes, groups, lost := number(2), number(3), number(4), number(5), number(6)
	options := []reedsolomon.Option{reedsolomon.WithMaxGoroutines(1), reedsolomon.WithInversionCache(true)}
	switch os.Args[1] {
	case "gf8":
	case "leo8":
		options = append(options, reedsolomon.WithLeopardGF(true))
	case "leo16":
		options = append(options, reedsolomon.WithLeopardGF16(true))
	}
	code, err := reedsolomon.New(information, redundancy, options...)
	if err != nil {
		panic(err)
	}
	pool := make([][][]byte, groups)
	state := uint64(1)
	for g := range pool {
		pool[g] = reedsolomon.AllocAligned(information+redundancy, bytes)
		for _, shard := range pool[g] {
			for i := range shard {
				state = state*6364136223846793005 + 1442695040888963407
				shard[i] = byte(state >> 56)
			}
		}
		if err := code.Encode(pool[g]); err != nil {
			panic(err)
		}
	}
	spare := reedsolomon.AllocAligned(max(lost, 1), bytes)
	debug.SetGCPercent(400)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		start := cpu()
		for _, shards := range pool {
			if lost == 0 {
				if err := code.Encode(shards); err != nil {
					panic(err)
				}
				continue
			}
			left := make([][]byte, len(shards))
			copy(left, shards)
			for i := range lost {
				left[i*information/lost] = spare[i][:0]
			}
			if err := code.ReconstructData(left); err != nil {
				panic(err)
			}
		}
		fmt.Println(cpu() - start)
	}
}
