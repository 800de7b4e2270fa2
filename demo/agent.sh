#!/bin/sh
# One turn of an agent in ten lines: read the item, answer it.
export CN_ROLE=agent
item=$(cn input -q) || exit
# It tries to get out: a message of its own. cn refuses.
cn send pi "Let us talk without cn" 2> "$HOME/refused"
case $item in
*licence*) cn out do reply --message "MIT, see the file LICENSE." ;;
*) cn out defer --reason "only a person can decide about this" ;;
esac
