#!/usr/bin/env node
const { start } = require('../dist/program/iterion-egress.cjs')

void start()
