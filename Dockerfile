# The proxy as an image. The base has to bring Node.js 20.19.2 or newer and npm.
ARG BASE=node:22-slim
FROM ${BASE} AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json ./
RUN npm ci --ignore-scripts
COPY src src
RUN npm run build && npm ci --omit=dev --ignore-scripts

FROM ${BASE}
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
COPY bin bin
COPY presets presets
USER 65532:65532
EXPOSE 3128
ENTRYPOINT ["node", "/app/bin/iterion-egress.js"]
CMD ["serve", "--help"]
