# The proxy as an image, and the relay of the sidecar door. The base has to bring Node.js 20.19.2 or newer.
#
#   docker build -t iterion-egress .            from a clone; the base has to bring npm too
#   node scripts/image-context.js DIR           from a tree that is built already, without network:
#   docker build -t iterion-egress DIR
#
#   --build-arg BASE=IMAGE                      another base
ARG BASE=node:22-slim

FROM ${BASE} AS runtime
# The relay leads addresses of the sandbox to the door with these two. A base that has them needs no network here.
RUN command -v ip >/dev/null && command -v iptables-restore >/dev/null || { \
      apt-get update && apt-get install -y --no-install-recommends iproute2 iptables && \
      rm -rf /var/lib/apt/lists/*; }
WORKDIR /app
COPY package.json ./
COPY bin bin
COPY presets presets
USER 65532:65532
EXPOSE 3128
# It writes nothing: the root may be read-only (--read-only).
HEALTHCHECK --interval=30s --timeout=5s --start-period=3s CMD ["node", "/app/dist/program/health.cjs"]
ENTRYPOINT ["node", "/app/bin/iterion-egress.js"]
CMD ["serve", "--help"]

FROM ${BASE} AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json ./
RUN npm ci --ignore-scripts
COPY src src
COPY bin bin
COPY scripts scripts
COPY presets presets
RUN npm run build

FROM runtime
COPY --from=build /build/dist/program dist/program
