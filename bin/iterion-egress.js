#!/usr/bin/env node
const path = require('node:path')
const { load } = require('./load-program.js')

const { start } = load(path.join(__dirname, '../dist/program/iterion-egress.cjs'))

void start()
